import type { CheckField, CheckKind, gateNumbers } from './policy-form.js'

/* Labels of the form of a policy. All `words` are English and passed to t(). Pure. */

/** One value of a choice. */
export interface Choice {
  value: string
  words: string
}

/** The values of the choices. An empty value means the default. */
export const choices = {
  drift: [
    { value: '', words: 'Warn and replace them (default)' },
    { value: 'refuse', words: 'Refuse the deployment' },
    { value: 'off', words: 'Replace them without a warning' }
  ],
  onPostFailure: [
    { value: '', words: 'Keep the new files (default)' },
    { value: 'revert', words: 'Put the earlier files back' }
  ],
  revertScript: [
    { value: '', words: 'The post-deploy script (default)' },
    { value: 'none', words: 'Nothing' }
  ],
  prune: [
    { value: '', words: 'Keep them (default)' },
    { value: 'managed', words: 'Remove them, unless somebody edited them' }
  ],
  pruneByDeployToken: [
    { value: '', words: 'Only with the global deploy token (default)' },
    { value: 'true', words: 'Also with the deploy token of the project' }
  ],
  forceByDeployToken: [
    { value: '', words: 'Only with the global deploy token (default)' },
    { value: 'true', words: 'Also with the deploy token of the project' }
  ],
  rollback: [
    { value: '', words: 'Puts the files of an archive over the others (default)' },
    { value: 'exact', words: 'Restores the earlier state exactly' }
  ],
  exact: [
    { value: '', words: 'Deploy all the same (default)' },
    { value: 'required', words: 'Refuse the deployment' }
  ],
  onFailure: [
    { value: 'revert', words: 'Put the earlier files back' },
    { value: 'keep', words: 'Keep the new files' }
  ]
} as const satisfies Record<string, readonly Choice[]>

/** The kinds of checks. */
export const checkKindWords: Record<CheckKind, { words: string }> = {
  http: { words: 'HTTP request' },
  tcp: { words: 'TCP connection' },
  command: { words: 'Command' },
  pm2: { words: 'PM2 application' },
  log: { words: 'Lines of a log' }
}

/** The texts of each kind of check. */
export const checkFields: Record<
  CheckKind,
  ReadonlyArray<{ name: CheckField; words: string; placeholder: string; rows?: number }>
> = {
  http: [
    { name: 'http', words: 'Address', placeholder: 'http://127.0.0.1:3000/up' },
    { name: 'status', words: 'Accepted status codes', placeholder: '200-299' },
    { name: 'contains', words: 'Text that the answer must contain', placeholder: '' }
  ],
  tcp: [{ name: 'tcp', words: 'Host and port', placeholder: '127.0.0.1:5432' }],
  command: [{ name: 'command', words: 'Script that must succeed', placeholder: 'node check.js', rows: 2 }],
  pm2: [],
  log: [
    { name: 'log', words: 'Id of the log file', placeholder: 'lsrc_1a2b3c4d5e6f7a8b' },
    { name: 'none', words: 'Expression that no new line may match', placeholder: '(?i)panic' },
    { name: 'for', words: 'Seconds', placeholder: '30' }
  ]
}

/** The numbers of a gate, with their defaults. */
export const numberWords: Record<(typeof gateNumbers)[number], { words: string; fallback: string }> = {
  interval: { words: 'Seconds between two attempts', fallback: '1' },
  timeout: { words: 'Seconds that one attempt may take', fallback: '5' },
  deadline: { words: 'Seconds until the checks must have passed', fallback: '30' },
  successes: { words: 'Attempts in a row that must pass', fallback: '2' },
  stableFor: { words: 'Seconds for which they must continue to pass', fallback: '0' }
}
