type Script = 'pre-deploy' | 'post-deploy'

const forced = "required by the project's configuration on the server"

/** Sentences of lib/deploy: errors of a deployment, and the lines that svc writes into its output. */
export const deploySays = {
  // Errors, in the record and at the end of the output.
  cancelledBy: (actor: string): string => `Cancelled by ${actor}`,
  revertTooLate: '(success): the earlier files are not kept any more. Roll back instead',
  revertQueued: '(queued): it has not begun. Cancel it instead',
  revertRunning: '(running): it waits for no check and no confirmation. Cancel it instead',
  revertNothing: '(failed): it has left no files in place',
  stoppedWhileQueued: 'The server was stopped before the deployment started',
  stoppedWhileRunning: 'The server was stopped while the deployment was running',
  ledBeforeRollout: 'The hub that led stopped before the rollout began: no node has changed. Push again',
  restartedBeforeRollout: 'The server was restarted before the rollout began: no node has changed. Push again',
  archiveLostInQueue: (id: string): string =>
    `Cannot continue the deployment after a restart: Archive not found: "${id}". Push again`,
  restartedWhileQueued: 'The server was restarted before the deployment started',
  restartedWhileRunning: 'The server was restarted before the result of the deployment was recorded',
  lockedBy: (what: string, owner: string): string => `${what} is locked by ${owner} until `,
  deploymentFailed: (why: string): string => `The deployment failed: ${why}`,
  targetFailed: (why = ''): string => `Preparing the target directory failed: ${why}`,
  extractionFailed: (why = ''): string => `Extracting the archive failed: ${why}`,
  scriptFailed: (script: Script, why = ''): string => `The ${script} script failed: ${why}`,
  noSpace: 'no space left on device. Free some space and deploy again',
  quotaUsedUp: (path: string): string => `disk quota exceeded at "${path}". Free some space and deploy again`,
  mayNotWrite: (path: string): string => `permission denied at "${path}"`,
  readOnly: 'read-only file system',
  nothingPlaced: (name: string): string => `Nothing to repair: svc has put no files into the target of "${name}"`,
  outputLost: (name: string): string => `the output is lost: "${name}" is missing in the data directory`,
  outputNoFile: (name: string): string => `the output is lost: "${name}" in the data directory is not a file`,
  outputLostBefore: '→ the output before this line is lost',
  clientScriptsOff: 'disables client scripts',
  notRecordedYet: /not recorded yet: .*the disk is full; svc keeps trying/,
  noTransition: (from: string, to: string, cause: string): string =>
    `A deployment that is "${from}" cannot become "${to}" (${cause})`,

  // Scripts. A sentence begins large as an error and small as a line of the output.
  ended: (script: Script, exitCode: number): string => `${script} script ended with exit code ${exitCode}`,
  failedWith: (script: Script, exitCode: number): string => `The ${script} script ended with exit code ${exitCode}`,
  endedBySignal: (script: Script, signal: string): string => `The ${script} script was killed by the signal ${signal}`,
  ranTooLong: (script: Script, seconds: number): string =>
    `The ${script} script was stopped: it ran longer than ${seconds} s (setting script_timeout)`,
  didNotRun: (title: string): string => `${title} did not run: `,
  noDirectory: (path: string): string => `the working directory "${path}" does not exist`,
  workingDirectoryMissing: (path: string): string => `its working directory "${path}" does not exist in the target`,
  workingDirectoryIsFile: (path: string): string => `"${path}" is not a directory`,
  workingDirectoryOutside: (path: string): string => `"${path}" leads outside the target`,
  shellNotInPath: (name: string): string => `the shell "${name}" is not in the PATH of this server`,
  shellNotExecutable: (path: string): string => `"${path}" is not an executable file on this server`,
  startedInBackground: 'post-deploy script in the background started',
  endedInBackground: (exitCode: number): string =>
    `post-deploy script in the background ended with exit code ${exitCode}`,
  failedInBackground: (exitCode: number): string =>
    `The post-deploy script in the background ended with exit code ${exitCode}`,
  cutShortInBackground:
    'The post-deploy script in the background was interrupted: the server was restarted while it ran',
  goesOnInBackground: 'the server is stopping; the post-deploy script continues in the background',
  stillRunning: (script: Script): RegExp =>
    new RegExp(`→ the ${script} script was still running: its \\d+ processes were stopped`),

  // Where a script comes from.
  setOnServer: (script: Script): string => `${script} script (set on the server)`,
  sentByClient: (script: Script): string => `${script} script (sent by the client)`,
  clientsIgnored: (script: Script): string =>
    `${script} script (set on the server; the one sent by the client is ignored)`,
  asInSource: (script: Script): string => `${script} script (as it ran in the source deployment)`,
  sourcesNotUsed: (script: Script): string =>
    `${script} script (set on the server; the one of the source deployment is not used)`,
  inBackground: ', in the background',
  askedForByClient: 'in the background (requested by the client)',
  forced: `(${forced})`,
  forcedOverClient: `(${forced}; the client's value is ignored)`,
  leftOut: (script: 'preDeploy' | 'postDeploy'): RegExp =>
    new RegExp(`skipping the ${script} script of dep_\\w+: client scripts`),
  variablesNeverSet: (...names: string[]): string =>
    `→ not passed to the scripts: ${quoted(names)} (a client may never set it)`,
  variablesNotAllowed: (...names: string[]): string =>
    `→ not passed to the scripts: ${quoted(names)} (client scripts are off, and it is not in the project's allowedEnv)`,

  // Other lines of the output.
  headOf: (project: string, by: string): RegExp => new RegExp(`^Deployment dep_\\w+ of ${project}, started by ${by}$`),
  archiveStored: /^→ stored the archive: \d+ B, SHA-256 [0-9a-f]{64} \(\d+\.\d\ds\)$/,
  targetPrepared: /^→ prepared the target directory /,
  targetNotThere: 'the target directory does not exist',
  filesInPlace: (files: number, bytes: number, changed: number): string =>
    `→ extracted ${files} files (${bytes} B), ${changed} new or changed`,
  zipRemoved: '→ removed the temporary zip',
  succeeded: /✓ success in \d+\.\d\ds/,
  failedAfter: /✗ failed after \d+\.\d\ds: /,
  queuedBehind: (deployments: number): string =>
    `→ queued: ${deployments} ${deployments === 1 ? 'deployment' : 'deployments'} of this project ahead\n`,
  startedAfterQueue: /→ started after \d.* in the queue/,
  filesStay: 'stay in place',
  filesStayForRollback: '→ the files of this deployment stay in place; roll back to restore earlier files\n',
  inPlaceAfterAll: 'in place after all',
  changesNotWritten: '→ cannot write the list of changes: the post-deploy script runs with an empty SVC_CHANGES',
  outputCut: (limit: string): string =>
    `→ the output exceeds ${limit}: the rest is discarded (setting max_output_size)`,
  outputMissing: (lines: string): string => `→ missing here: ${lines} of output, because it could not be written`,

  // Lines of the server's log.
  notRecorded: /^Cannot record /,
  filesNotRemoved: 'Cannot remove files of deployments: the next start tries again',
  leftoversRemoved: (count: number): RegExp =>
    new RegExp(`^Removed ${count} files that an earlier server left behind: `),
  diskMissing: /its disk is mounted/
}

function quoted(names: string[]): string {
  return names.map(name => JSON.stringify(name)).join(', ')
}
