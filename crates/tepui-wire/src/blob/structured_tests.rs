use super::*;
use tepui_model::ErrorCode;

#[test]
fn headers() {
    let asked = |value: &str| {
        let headers: HeaderMap =
            [(HeaderName::from_static(STRUCTURED_BODY), value.parse().unwrap())].into_iter().collect();
        is_asked(&headers).map_err(|error| error.code)
    };
    assert_eq!(asked(VALUE), Ok(true));
    assert_eq!(asked("xsm/1.0;properties=crc64"), Ok(true));
    assert_eq!(asked(""), Ok(false));
    assert_eq!(asked("XSM/2.0; properties=crc64"), Err(ErrorCode::InvalidHeaderValue));
    assert_eq!(is_asked(&HeaderMap::new()), Ok(false));
    let mut answer = HeaderMap::new();
    mark_download(&mut answer, 5, 44);
    assert_eq!((&answer[CONTENT_LENGTH], &answer[PLAIN_LENGTH]), (&44.into(), &5.into()));
}
