//! Just enough XML to read answers: the texts of elements by name.

/// The texts of all elements of this name, in the order of the document. `CommittedBlocks/Name` are those
/// inside of others.
pub(crate) fn texts(body: &str, path: &str) -> Vec<String> {
    let inner = path.split('/').fold(vec![body.to_owned()], |found, name| {
        found.iter().flat_map(|text| contents(text, name)).collect()
    });
    inner.iter().map(|text| unescaped(text)).collect()
}

/// What stands between the tags of this name.
fn contents(body: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let mut texts = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find(&open) {
        rest = &rest[at + open.len()..];
        if !rest.starts_with(['>', ' ', '/']) {
            continue;
        }
        let Some(end) = rest.find('>') else { break };
        let (attributes, after) = (&rest[..end], &rest[end + 1..]);
        if attributes.ends_with('/') {
            texts.push(String::new());
            rest = after;
        } else if let Some((text, after)) = after.split_once(&close) {
            texts.push(text.to_owned());
            rest = after;
        } else {
            break;
        }
    }
    texts
}

/// The text that escaped text stands for.
pub(crate) fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#xD;", "\r"), ("&#13;", "\r")]
        .iter()
        .fold(text.to_owned(), |text, (escape, mark)| text.replace(escape, mark))
        .replace("&amp;", "&")
}

/// The same text inside an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_elements_by_name() {
        let body = "<L><M><Text>a &amp;lt; b</Text><Texts>no</Texts></M><M><Text /></M><M><Text x=\"1\">c</Text></M></L>";
        assert_eq!(texts(body, "Text"), ["a &lt; b", "", "c"]);
        assert_eq!(texts(body, "Id"), Vec::<String>::new());
        assert_eq!(texts("<A><N>1</N></A><B><N>2</N><N>3</N></B>", "B/N"), ["2", "3"]);
        assert_eq!(unescaped(&escaped("<a> &amp; b")), "<a> &amp; b");
    }
}
