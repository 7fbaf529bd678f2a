import type { Language } from '../words/t.js'

/** Why a session ended. */
export type EndReason = 'signed_out' | 'expired'

/** The session began (`reason` null) or ended. */
export class SessionEvent extends Event {
  readonly reason: EndReason | null

  constructor(reason: EndReason | null) {
    super('session')
    this.reason = reason
  }
}

/** What a sign-in answers of the session (`POST /api/auth/login`). */
export interface BegunSession {
  id: string
  csrf: string
}

export interface Session extends EventTarget {
  /** The id of the session, which is no secret; null: nobody is signed in. */
  readonly id: string | null
  /** What changes need; null: the server has not been asked yet. Never stored. */
  csrf: string | null
  begin(session: BegunSession): void
  end(reason: EndReason): void
  /** Another tab has signed in or out: takes its `storage` event. */
  heard(event: Pick<StorageEvent, 'key' | 'newValue'>): void
}

/** The two storages of a window, or the like. */
export interface TokenStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/**
 * The session is a cookie that no script can read, the same one for all tabs. The browser's storage only says that there is
 * one, so that a page need not ask. The key carries the base, so that two servers behind one host do not see each other's.
 * Earlier versions stored the admin token itself: it is removed.
 */
export function createSession(needs: { base: string; tab: TokenStorage; browser: TokenStorage }): Session {
  const { tab, browser } = needs
  const key = `svc.session ${needs.base}`
  for (const storage of [tab, browser]) storage.removeItem(`svc.token ${needs.base}`)

  class StoredSession extends EventTarget implements Session {
    csrf: string | null = null

    get id(): string | null {
      return browser.getItem(key)
    }

    begin({ id, csrf }: BegunSession): void {
      browser.setItem(key, id)
      this.csrf = csrf
      this.dispatchEvent(new SessionEvent(null))
    }

    end(reason: EndReason): void {
      browser.removeItem(key)
      this.csrf = null
      this.dispatchEvent(new SessionEvent(reason))
    }

    heard({ key: changed, newValue }: Pick<StorageEvent, 'key' | 'newValue'>): void {
      if (changed !== key && changed !== null) return
      this.csrf = null
      this.dispatchEvent(new SessionEvent(newValue === null ? 'expired' : null))
    }
  }
  return new StoredSession()
}

/** Light and dark follow the system unless the reader chose one. */
export type Theme = 'system' | 'light' | 'dark'

export const themes: readonly Theme[] = ['system', 'light', 'dark']
export const languages: ReadonlyArray<{ value: Language; words: string }> = [
  { value: 'en', words: 'English' },
  { value: 'zh', words: '中文' }
]

export interface Preferences {
  theme: Theme
  language: Language
}

/** What the reader chose of the panel itself, kept by the browser; nothing is written until something is chosen. */
export function createPreferences(needs: { base: string; storage: TokenStorage; wanted: readonly string[] }): Preferences {
  const { base, storage, wanted } = needs
  const read = (name: string): string | null => storage.getItem(`svc.${name} ${base}`)
  const write = (name: string, value: string): void => storage.setItem(`svc.${name} ${base}`, value)
  // The browser's list is in order of preference: the first that the panel speaks.
  const first = wanted.map(tag => tag.slice(0, 2).toLowerCase()).find(tag => tag === 'en' || tag === 'zh')

  return {
    get theme() {
      return themes.find(theme => theme === read('theme')) ?? 'system'
    },
    set theme(theme) {
      write('theme', theme)
    },
    get language() {
      return languages.find(({ value }) => value === read('language'))?.value ?? (first === 'zh' ? 'zh' : 'en')
    },
    set language(language) {
      write('language', language)
    }
  }
}
