import { writeFile } from 'node:fs/promises'
import { findIdentity, type Rights } from '../proc/identity.js'
import { killProcess } from '../proc/stop.js'
import { ensureTarget, type NewTargetRules } from '../target/guard.js'
import type { JournalHelper } from '../target/journal-file.js'
import { sharedChanges } from './files.js'
import { createExtractHelpers } from './extract-helpers.js'
import { createExtractThreads, type Executor, type ThreadOptions } from './extract-threads.js'

/** Who carries out what is done to targets: threads with the rights of svc, or processes with those of a user. */
export interface Executors {
  /** With these rights; null: those of svc. */
  as(rights: Rights | null): Executor
  /**
   * With the rights that an extraction had which was cut short; its process, if it still runs, is ended first. Refuses
   * (400 naming `runAs`) a user that is gone.
   */
  ofJournal(helper: JournalHelper | null): Promise<Executor>
  /** As `ensureTarget` of target/guard.ts, with these rights. */
  makeTarget(rights: Rights | null, target: string, rules: NewTargetRules): Promise<string>
  /** Writes the list of changes for a script that has these rights; gives its path. `path` is for one that has those of svc. */
  writeChanges(rights: Rights | null, path: string, changes: Uint8Array[]): Promise<string>
  /** Ends the threads that have nothing to do. */
  close(): Promise<void>
}

export function createExecutors(options: ThreadOptions = {}): Executors {
  const threads = createExtractThreads(options)
  const helpers = createExtractHelpers()
  const as = (rights: Rights | null): Executor => (rights === null ? threads : helpers.as(rights))
  return {
    as,
    async ofJournal(helper) {
      if (helper === null) return threads
      await killProcess(helper)
      return as({ identity: await findIdentity(helper.user), umask: null })
    },
    makeTarget: (rights, target, rules) => (rights === null ? ensureTarget(target, rules) : helpers.makeTarget(rights, target, rules)),
    async writeChanges(rights, path, changes) {
      if (rights === null) await writeFile(path, changes, { mode: 0o600 })
      else await helpers.writeChanges(rights, (path = sharedChanges(path)), changes)
      return path
    },
    close: () => threads.close()
  }
}
