use super::*;

#[test]
fn a_message_is_cut_between_two_characters() {
    let long = format!("{}é", "x".repeat(MESSAGE_BYTES_MAX - 1));
    assert_eq!(kept(&long), "x".repeat(MESSAGE_BYTES_MAX - 1));
    assert_eq!(kept("a\0b"), "ab");
}
