import type { ReplicatedStore } from '../../store/log/replicated-store.js'
import type { Archives } from './archives.js'

/** Keeps the files of deployments on this hub as the records say. */
export interface Mirror {
  stop(): Promise<void>
}

/** Dependencies of the mirror. */
export interface MirrorNeeds {
  archives: Pick<Archives, 'mirror'>
  store: Pick<ReplicatedStore, 'version' | 'onRole'>
  log(message: string, error?: unknown): void
  /** Time between two looks at the records. */
  everyMs?: number
  /** Time after which everything is looked at, even if no record has changed: another hub may be back. */
  againMs?: number
}

const tables = ['deployments'] as const

/** Starts the mirror. It works when a record has changed, and now and then. */
export function startMirror({ archives, store, log, everyMs = 2000, againMs = 60_000 }: MirrorNeeds): Mirror {
  const stopping = new AbortController()
  let seen: string | null = null
  let lastMs = 0
  let working: Promise<void> = Promise.resolve()
  let isBusy = false

  function look(): void {
    const version = store.version(tables)
    if (isBusy || stopping.signal.aborted || (version === seen && Date.now() - lastMs < againMs)) return
    isBusy = true
    seen = version
    lastMs = Date.now()
    working = archives
      .mirror(stopping.signal)
      .catch(error => {
        if (!stopping.signal.aborted) log('Cannot bring the archives of this hub up to date yet', error)
      })
      .finally(() => void (isBusy = false))
  }

  const timer = setInterval(look, everyMs).unref()
  const stopListening = store.onRole(() => void (seen = null))
  return {
    async stop() {
      clearInterval(timer)
      stopListening()
      stopping.abort()
      await working
    }
  }
}
