//! What a process tells the others that is gone right after it.

use tokio::runtime::Builder;

use super::*;

#[tokio::test]
async fn a_process_that_ends_right_after_what_it_did_has_told_the_others() {
    with_place!(place);
    let there = place.open().await;
    let mut theirs = there.subscribe();
    assert_eq!(theirs.recv().await.unwrap(), Signal::Anything);

    let url = place.url.clone();
    let brief = std::thread::spawn(move || {
        let process = Builder::new_current_thread().enable_all().build().unwrap();
        process.block_on(async {
            let options = OpenOptions { tells_first: true, ..OpenOptions::default() };
            open(&url, options).await.unwrap().transact(TxKind::Plain, put(&["a"])).await
        })
    });
    brief.join().unwrap().unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(10), theirs.recv()).await;
    assert_eq!(heard.expect("it was told").unwrap(), Signal::Due);
    drop(there);
    place.gone().await;
}
