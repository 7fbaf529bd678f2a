import { oneLine } from '../base/text.js'
import {
  hasCode,
  isDenied,
  isDiskFull,
  isOutOfInodes,
  messageOf,
  reasonOf,
  Refusal,
  spaceCure
} from '../base/errors.js'
import type { RevertReason, StepName } from '../model/deployment.js'

/** The reason for stopping a run. Its signal aborts with this error. */
export class StopRequest extends Error {
  /** Cause in the transition table (record.ts). */
  readonly by: 'cancel' | 'stop'

  constructor(by: 'cancel' | 'stop', sentence: string) {
    super(sentence)
    this.name = 'StopRequest'
    this.by = by
  }
}

/**
 * The server stops while a deployment waits for its checks or its confirmation. The deployment stays as it is, and the
 * next start continues it.
 */
export class Suspension extends Error {
  constructor() {
    super('The server is stopping')
    this.name = 'Suspension'
  }
}

/** A held deployment that a start cannot continue: its earlier files are put back. */
export class Interrupted extends Error {
  constructor(
    readonly reason: RevertReason,
    sentence: string
  ) {
    super(sentence)
    this.name = 'Interrupted'
  }
}

/** A failed step. Its message is a complete sentence for the user. */
export class StepFailure extends Error {
  constructor(sentence: string, details?: { cause: unknown }) {
    super(sentence, details)
    this.name = 'StepFailure'
  }
}

const stepTitles: Record<StepName, string> = {
  store: 'Storing the archive',
  rollout: 'The rollout to the nodes',
  target: 'Preparing the target directory',
  preDeploy: 'The pre-deploy script',
  extract: 'Extracting the archive',
  postDeploy: 'The post-deploy script',
  check: 'The check of the deployment',
  confirm: 'The confirmation of the deployment',
  revert: 'Putting the earlier files back',
  onFailure: 'The on-failure script',
  cleanup: 'Removing the temporary zip'
}

/** Describes an error in a step as one sentence for the record, on one line. */
export function sentenceOf(error: unknown, step: StepName | null): string {
  if (error instanceof StopRequest || error instanceof StepFailure) return oneLine(error.message)
  const title = step === null ? 'The deployment' : stepTitles[step]
  return oneLine(`${title} failed: ${explain(error as NodeJS.ErrnoException)}`)
}

/** Returns the 503 if the data directory has no space left, or any other error unchanged. */
export function refuseFullDisk(error: unknown, what = 'store the upload'): unknown {
  if (!isDiskFull(error)) return error
  const sentence = `Cannot ${what}: ${reasonOf(error)}. ${spaceCure(error)} in the data directory`
  return new Refusal('unavailable', 'disk_full', sentence, { cause: error })
}

function explain(error: NodeJS.ErrnoException): string {
  const where = error.path === undefined ? '' : ` at "${error.path}"`
  if (isOutOfInodes(error)) return `${reasonOf(error)}${where}. Remove some files and deploy again`
  if (isDiskFull(error)) return `${reasonOf(error)}${where}. Free some space and deploy again`
  if (isDenied(error) || hasCode(error, 'EROFS')) return `${reasonOf(error)}${where}`
  return messageOf(error) || String(error)
}
