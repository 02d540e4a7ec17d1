//! Calls to other services, against a service that misbehaves.

mod calls;
mod keys;
mod outage;
mod recorded;
mod redirects;
mod server;

use outlast::http::{Egress, HttpError};
use outlast::prelude::*;
use outlast::{Stored, testing};

/// What a job gets that does this once.
async fn in_job<T, F, Fut>(egress: Egress, work: F) -> Result<T, HttpError>
where
    T: Stored + Clone,
    F: Fn(JobCtx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, HttpError>> + Send + 'static,
{
    let job = Job::new("call", move |job: JobCtx, (): ()| work(job)).retry(Retry::never());
    let test = testing::start(|app| app.job(job.clone()).egress(egress)).await.unwrap();
    let run = test.app().start(job, ()).await.unwrap();
    run.result().await.map_err(|failure| failure.own().expect("an error of the call"))
}

/// The status and body that a GET of `url` gives.
async fn get(egress: Egress, url: String) -> Result<(u16, String), HttpError> {
    in_job(egress, move |job| {
        let call = job.http().get(&url);
        async move {
            let answer = call.send().await?;
            Ok((answer.status().as_u16(), answer.text().into_owned()))
        }
    })
    .await
}
