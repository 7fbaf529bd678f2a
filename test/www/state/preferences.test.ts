import t from 'tap'
import { createPreferences } from '../../../www/state/preferences.js'

function stage(wanted: string[]) {
  const kept = new Map<string, string>()
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key)
  }
  return { kept, preferences: createPreferences({ base: 'http://host/', storage, wanted }) }
}

t.test('nothing is written until something is chosen; what is written is read again', async t => {
  const { kept, preferences } = stage(['de', 'zh-CN', 'en'])
  t.equal(preferences.theme, 'system')
  t.equal(preferences.language, 'zh', 'the first that the panel speaks')
  t.equal(kept.size, 0)
  preferences.theme = 'dark'
  preferences.language = 'en'
  t.equal(preferences.theme, 'dark')
  t.equal(preferences.language, 'en')
  kept.set('svc.theme http://host/', 'nonsense')
  t.equal(preferences.theme, 'system')
})

t.test('English is what is left', async t => {
  t.equal(stage(['de', 'fr']).preferences.language, 'en')
  t.equal(stage(['en-US', 'zh']).preferences.language, 'en')
})
