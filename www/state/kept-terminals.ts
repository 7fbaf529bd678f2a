import type { TokenStorage } from './session.js'

/** A session whose shell continues while its page is reloaded. */
export interface KeptTerminal {
  sessionId: string
  projectId: string | null
  /** Bytes of its output that were shown. The next page shows them again without answering queries in them again. */
  receivedBytes: number
  columns: number
  rows: number
}

/** The sessions that survive a reload of the page. */
export interface KeptTerminals {
  put(sessions: readonly KeptTerminal[]): void
  /** Returns the stored sessions and removes them, because two pages cannot share a session. */
  take(): KeptTerminal[]
}

/** Creates the store, in the storage of the tab. */
export function createKeptTerminals({ base, tab }: { base: string; tab: TokenStorage }): KeptTerminals {
  const key = `svc.terminals ${base}`
  return {
    put(sessions) {
      if (sessions.length === 0) tab.removeItem(key)
      else tab.setItem(key, JSON.stringify(sessions))
    },
    take() {
      const text = tab.getItem(key)
      tab.removeItem(key)
      try {
        return (JSON.parse(text ?? '[]') as unknown[]).filter(isKept)
      } catch {
        return []
      }
    }
  }
}

function isKept(value: unknown): value is KeptTerminal {
  const { sessionId, projectId, ...numbers } = (value ?? {}) as Partial<Record<keyof KeptTerminal, unknown>>
  const areNumbers = [numbers.receivedBytes, numbers.columns, numbers.rows].every(Number.isSafeInteger)
  return typeof sessionId === 'string' && (projectId === null || typeof projectId === 'string') && areNumbers
}
