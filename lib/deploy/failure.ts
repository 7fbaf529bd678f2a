import { oneLine } from '../base/one-line.js'
import { Refusal } from '../base/refusal.js'
import { codeOf, isDiskFull, messageOf } from '../base/system-error.js'
import type { StepName } from '../model/deployment.js'

/** Why a run was told to stop: the reason its signal aborts with. */
export class StopRequest extends Error {
  /** As in the transition table. */
  readonly by: 'cancel' | 'stop'

  constructor(by: 'cancel' | 'stop', sentence: string) {
    super(sentence)
    this.name = 'StopRequest'
    this.by = by
  }
}

/** A step that came to its end, but not to a good one; the sentence is whole and for the user. */
export class StepFailure extends Error {
  constructor(sentence: string, details?: { cause: unknown }) {
    super(sentence, details)
    this.name = 'StepFailure'
  }
}

const stepTitles: Record<StepName, string> = {
  store: 'Keeping the archive',
  target: 'Preparing the target directory',
  preDeploy: 'The pre-deploy script',
  extract: 'Extracting the archive',
  postDeploy: 'The post-deploy script',
  cleanup: 'Removing the temporary zip'
}

/** What an error in a step means, as one sentence for the record, on one line. */
export function sentenceOf(error: unknown, step: StepName | null): string {
  if (error instanceof StopRequest || error instanceof StepFailure) return oneLine(error.message)
  const title = step === null ? 'The deployment' : stepTitles[step]
  return oneLine(`${title} failed: ${explain(error as NodeJS.ErrnoException)}`)
}

/** The 503 when the data directory has no room left; any other error unchanged. */
export function refuseFullDisk(error: unknown): unknown {
  if (!isDiskFull(error)) return error
  const sentence = 'The upload could not be stored: no space is left on the disk of the data directory; free some'
  return new Refusal('unavailable', 'disk_full', sentence, { cause: error })
}

function explain(error: NodeJS.ErrnoException): string {
  const code = codeOf(error)
  if (code === 'EDQUOT') return `the disk quota is used up${where(error)}; free some space, or raise it, and deploy again`
  if (isDiskFull(error)) return `no space is left on the disk${where(error)}; free some and deploy again`
  if (code === 'EACCES' || code === 'EPERM') return `svc may not write${where(error)} (${code})`
  if (code === 'EROFS') return `the file system is read-only${where(error)}`
  return messageOf(error) || String(error)
}

function where(error: NodeJS.ErrnoException): string {
  return error.path === undefined ? '' : ` at "${error.path}"`
}
