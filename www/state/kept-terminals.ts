import type { TokenStorage } from './session.js'

/** A session whose shell goes on while its page is loaded again. */
export interface KeptTerminal {
  sessionId: string
  projectId: string | null
  /** What of its output was shown: the next page shows it again, without answering it again. */
  receivedBytes: number
  columns: number
  rows: number
}

export interface KeptTerminals {
  put(sessions: readonly KeptTerminal[]): void
  /** Those that were put, once: two pages cannot have the same session. */
  take(): KeptTerminal[]
}

/** In the tab's storage, from one page's end to the next one's beginning. */
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
