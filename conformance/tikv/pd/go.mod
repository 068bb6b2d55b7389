module tepui.invalid/pd

go 1.21

require github.com/tikv/pd v1.1.0-beta.0.20210818082359-acba1da0018d
