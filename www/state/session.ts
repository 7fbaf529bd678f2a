import { groupings, type Grouping } from '../elements/projects/project-groups.js'
import type { Language } from '../words/t.js'
import { isRole, type Holder } from './rights.js'

/** The reason for the end of a session. */
export type EndReason = 'signed_out' | 'expired'

/** Announces that the session began (`reason` is null) or ended. */
export class SessionEvent extends Event {
  constructor(readonly reason: EndReason | null) {
    super('session')
  }
}

/** The session in the answer of a sign-in (`POST /api/auth/login`). */
export interface BegunSession {
  id: string
  csrf: string
}

/** The session of this browser. */
export interface Session extends EventTarget {
  /** Id of the session, which is no secret; null if nobody is signed in. */
  readonly id: string | null
  /** Token against cross-site requests that changes need; null before the server was asked. Never stored. */
  csrf: string | null
  /** The token that the session began with; null before the server was asked. It stays the same until the end. */
  holder: Holder | null
  begin(session: BegunSession): void
  end(reason: EndReason): void
  /** Takes the `storage` event of another tab that signed in or out. */
  heard(event: Pick<StorageEvent, 'key' | 'newValue'>): void
}

/** A storage of the browser, or a replacement in tests. */
export interface TokenStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/**
 * Creates the session. It is a cookie that scripts cannot read, shared by all tabs. The storage of the browser only
 * notes that there is one, which saves a request. The key contains the base, so two servers on one host stay separate.
 * Earlier versions stored the admin token itself, which is removed.
 */
export function createSession(needs: { base: string; tab: TokenStorage; browser: TokenStorage }): Session {
  const { tab, browser } = needs
  const key = `svc.session ${needs.base}`
  const holderKey = `svc.holder ${needs.base}`
  for (const storage of [tab, browser]) storage.removeItem(`svc.token ${needs.base}`)

  class StoredSession extends EventTarget implements Session {
    csrf: string | null = null

    get id(): string | null {
      return browser.getItem(key)
    }

    get holder(): Holder | null {
      return readHolder(browser.getItem(holderKey), this.id)
    }

    set holder(holder: Holder | null) {
      // An answer may arrive after the end of the session.
      if (holder === null || this.id === null) browser.removeItem(holderKey)
      else browser.setItem(holderKey, JSON.stringify({ session: this.id, ...holder }))
    }

    begin({ id, csrf }: BegunSession): void {
      browser.setItem(key, id)
      this.csrf = csrf
      this.dispatchEvent(new SessionEvent(null))
    }

    end(reason: EndReason): void {
      browser.removeItem(key)
      this.holder = null
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

/** Reads what the storage keeps of a holder, which is of no use for another session. */
function readHolder(text: string | null, id: string | null): Holder | null {
  if (text === null || id === null) return null
  try {
    const { session, ...holder } = JSON.parse(text) as Holder & { session: string }
    return session === id && isRole(holder.role) ? holder : null
  } catch {
    return null
  }
}

/** The color scheme. `system` follows the operating system. */
export type Theme = 'system' | 'light' | 'dark'

/** All themes. */
export const themes: readonly Theme[] = ['system', 'light', 'dark']
/** All languages with their own names. */
export const languages: ReadonlyArray<{ value: Language; words: string }> = [
  { value: 'en', words: 'English' },
  { value: 'zh', words: '中文' }
]

/** The user's preferences for the panel. */
export interface Preferences {
  theme: Theme
  language: Language
  /** What the list of projects is grouped by. */
  grouping: Grouping
}

/** Creates the preferences, which the browser stores. Nothing is stored until the user chooses something. */
export function createPreferences(needs: {
  base: string
  storage: TokenStorage
  wanted: readonly string[]
}): Preferences {
  const { base, storage, wanted } = needs
  const read = (name: string): string | null => storage.getItem(`svc.${name} ${base}`)
  const write = (name: string, value: string): void => storage.setItem(`svc.${name} ${base}`, value)
  // The browser's list is in order of preference: take the first supported language.
  const first = wanted.map(tag => tag.slice(0, 2).toLowerCase()).find(tag => tag === 'en' || tag === 'zh')

  return {
    get theme() {
      return themes.find(theme => theme === read('theme')) ?? 'system'
    },
    set theme(theme) {
      write('theme', theme)
    },
    get grouping() {
      return groupings.find(grouping => grouping === read('grouping')) ?? 'none'
    },
    set grouping(grouping) {
      write('grouping', grouping)
    },
    get language() {
      return languages.find(({ value }) => value === read('language'))?.value ?? (first === 'zh' ? 'zh' : 'en')
    },
    set language(language) {
      write('language', language)
    }
  }
}
