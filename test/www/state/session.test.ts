import t from 'tap'
import { createPreferences, createSession } from '../../../www/state/session.js'
import type { SessionEvent, TokenStorage } from '../../../www/state/session.js'

function storage(): TokenStorage & { entries: Map<string, string> } {
  const entries = new Map<string, string>()
  return {
    entries,
    getItem: key => entries.get(key) ?? null,
    setItem: (key, value) => void entries.set(key, value),
    removeItem: key => void entries.delete(key)
  }
}

t.test('the token stays in the tab unless it shall be remembered', async t => {
  const tab = storage()
  const browser = storage()
  const session = createSession({ base: 'http://host/', tab, browser })
  const reasons: unknown[] = []
  session.addEventListener('session', event => reasons.push((event as SessionEvent).reason))
  t.equal(session.token, null)

  session.begin('secret', { isRemembered: false })
  t.equal(session.token, 'secret')
  t.equal(browser.entries.size, 0)

  session.begin('other', { isRemembered: true })
  t.equal(session.token, 'other')
  t.equal(tab.entries.size, 0)

  session.renew('renewed')
  t.equal(session.token, 'renewed')
  t.equal(tab.entries.size, 0, 'kept where the one before was')

  session.end('expired')
  t.equal(session.token, null)
  t.equal(browser.entries.size, 0)
  t.same(reasons, [null, null, 'expired'])
})

t.test('two servers behind one host do not see each other', async t => {
  const tab = storage()
  const browser = storage()
  createSession({ base: 'http://host/a/', tab, browser }).begin('secret', { isRemembered: false })
  t.equal(createSession({ base: 'http://host/b/', tab, browser }).token, null)
})

function chosen(wanted: string[]) {
  const kept = storage()
  return { kept: kept.entries, preferences: createPreferences({ base: 'http://host/', storage: kept, wanted }) }
}

t.test('nothing is written until something is chosen; what is written is read again', async t => {
  const { kept, preferences } = chosen(['de', 'zh-CN', 'en'])
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
  t.equal(chosen(['de', 'fr']).preferences.language, 'en')
  t.equal(chosen(['en-US', 'zh']).preferences.language, 'en')
})
