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

export interface Session extends EventTarget {
  /** The admin token; null: nobody is signed in. */
  readonly token: string | null
  begin(token: string, options: { isRemembered: boolean }): void
  /** Goes on with another token, kept where the one before was. */
  renew(token: string): void
  end(reason: EndReason): void
}

/** The two storages of a window, or the like. */
export interface TokenStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/**
 * The token lasts as long as the tab, and only when the user asks to be remembered as long as the browser's storage.
 * The key carries the base, so that two servers behind one host do not see each other's.
 */
export function createSession(needs: { base: string; tab: TokenStorage; browser: TokenStorage }): Session {
  const { tab, browser } = needs
  const key = `svc.token ${needs.base}`

  class StoredSession extends EventTarget implements Session {
    get token(): string | null {
      return tab.getItem(key) ?? browser.getItem(key)
    }

    begin(token: string, { isRemembered }: { isRemembered: boolean }): void {
      browser.removeItem(key)
      tab.removeItem(key)
      ;(isRemembered ? browser : tab).setItem(key, token)
      this.dispatchEvent(new SessionEvent(null))
    }

    renew(token: string): void {
      ;(tab.getItem(key) === null ? browser : tab).setItem(key, token)
    }

    end(reason: EndReason): void {
      tab.removeItem(key)
      browser.removeItem(key)
      this.dispatchEvent(new SessionEvent(reason))
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
