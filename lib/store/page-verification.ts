import type { Refusal } from '../base/refusal.js'
import { damaged } from './recovery.js'

/** A large svc.db is checked this long after the start. */
const verifyAfterMs = 2000

/** The check of the pages of a svc.db that was too large to be checked at the start. */
export interface Verification {
  /** Resolves once every page of svc.db was checked; rejects if one is damaged. The check runs once. */
  verified: () => Promise<void>
  /** The refusal of a damaged svc.db; null if no fault was found so far. */
  readonly damage: Refusal | null
  stop(): void
}

/** Checks the pages of svc.db after a while if `isChecked` is false, or earlier if a checkpoint is about to overwrite it. */
export function createVerification(options: {
  path: string
  isChecked: boolean
  warn: (sentence: string) => void
}): Verification {
  const { path, isChecked, warn } = options
  let damage: Refusal | null = null
  let running: Promise<void> | null = isChecked ? Promise.resolve() : null

  async function verify(): Promise<void> {
    // Loaded on demand: only a few databases are so large that they need the thread.
    const { faultOfPagesInThread } = await import('./page-check-thread.js')
    const fault = await faultOfPagesInThread(path)
    if (fault === null) return
    damage = damaged(path, fault)
    warn(damage.message)
    throw damage
  }

  const verified = () => (running ??= verify())
  const begin = setTimeout(() => void verified().catch(() => {}), verifyAfterMs).unref()
  return {
    verified,
    get damage() {
      return damage
    },
    stop: () => clearTimeout(begin)
  }
}
