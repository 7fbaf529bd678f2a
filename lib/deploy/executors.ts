import { findIdentity, type Rights } from '../proc/identity.js'
import type { JournalHelper } from '../target/journal-file.js'
import { createExtractHelpers, endHelper } from './extract-helpers.js'
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
      await endHelper(helper)
      return as({ identity: await findIdentity(helper.user), umask: null })
    },
    close: () => threads.close()
  }
}
