import { writeFile } from 'node:fs/promises'
import { findIdentity, type Rights } from '../../proc/identity.js'
import { bootId, killProcess } from '../../proc/stop.js'
import { ensureTarget, type NewTargetRules } from '../guard.js'
import type { JournalHelper } from '../undo.js'
import { createExtractHelpers, helperProgram } from './extract-helpers.js'
import { createExtractThreads, type Executor, type ThreadOptions } from './extract-threads.js'
import { createSmallJobs } from './small-jobs.js'
import type { SmallLimits } from './small.js'

/**
 * Executes jobs on targets: with the rights of svc in threads, or without one if they are small; with those of a user in
 * processes.
 */
export interface Executors {
  /** Returns the executor for these rights; null means those of svc. */
  as(rights: Rights | null): Executor
  /**
   * Returns the executor for comparisons with these rights. It has its own threads and processes, so that a deployment
   * never waits for a plan.
   */
  comparing(rights: Rights | null): Executor
  /**
   * Returns an executor with the rights of an interrupted extraction. Ends the helper process of the extraction first
   * if it still runs. Refuses (400 naming `runAs`) if the user no longer exists.
   */
  ofJournal(helper: JournalHelper | null): Promise<Executor>
  /** Calls `ensureTarget` of install/guard.ts with these rights. */
  makeTarget(rights: Rights | null, target: string, rules: NewTargetRules): Promise<string>
  /** Writes the list of changes to a new file, for a script with these rights. */
  writeChanges(rights: Rights | null, path: string, changes: Uint8Array[]): Promise<void>
  /** Ends idle threads. */
  close(): Promise<void>
}

/** Options of the executors of a server. */
export interface ExecutorOptions extends ThreadOptions {
  /** The largest extraction that needs no thread. */
  small?: SmallLimits
}

/** Creates the executors of a server. Threads and processes start when there is work. */
export function createExecutors({ small, ...options }: ExecutorOptions = {}): Executors {
  const threads = createExtractThreads(options)
  const own = createSmallJobs(threads, small)
  const helpers = createExtractHelpers()
  const compareThreads = createExtractThreads(options)
  const compareHelpers = createExtractHelpers()
  const as = (rights: Rights | null): Executor => (rights === null ? own : helpers.as(rights))
  return {
    as,
    comparing: rights => (rights === null ? compareThreads : compareHelpers.as(rights)),
    async ofJournal(helper) {
      if (helper === null) return own
      const identity = await findIdentity(helper.user)
      const isOfThisBoot = helper.bootId === undefined || helper.bootId === bootId()
      if (isOfThisBoot) await killProcess(helper, { uids: [identity.uid], program: helperProgram })
      return as({ identity, umask: null })
    },
    makeTarget: (rights, target, rules) =>
      rights === null ? ensureTarget(target, rules) : helpers.makeTarget(rights, target, rules),
    async writeChanges(rights, path, changes) {
      if (rights === null) await writeFile(path, changes, { mode: 0o600 })
      else await helpers.writeChanges(rights, path, changes)
    },
    close: async () => void (await Promise.all([threads.close(), compareThreads.close()]))
  }
}
