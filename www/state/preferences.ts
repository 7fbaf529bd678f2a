import type { Language } from '../words/t.js'
import type { TokenStorage } from './session.js'

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
