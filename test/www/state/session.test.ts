import t from 'tap'
import { createPreferences, createSession, type SessionEvent, type TokenStorage } from '../../../www/state/session.js'
import type { Holder } from '../../../www/state/rights.js'

function storage(): TokenStorage & { entries: Map<string, string> } {
  const entries = new Map<string, string>()
  return {
    entries,
    getItem: key => entries.get(key) ?? null,
    setItem: (key, value) => void entries.set(key, value),
    removeItem: key => void entries.delete(key)
  }
}

const base = 'http://host/'

t.test('the storage notes the session and contains no secret', async t => {
  const [tab, browser] = [storage(), storage()]
  const session = createSession({ base, tab, browser })
  const reasons: unknown[] = []
  session.addEventListener('session', event => reasons.push((event as SessionEvent).reason))
  t.equal(session.id, null)
  session.begin({ id: 'ses_1', csrf: 'the-csrf' })
  t.equal(session.id, 'ses_1')
  t.equal(session.csrf, 'the-csrf')
  t.same([...browser.entries.values()], ['ses_1'])
  t.equal(tab.entries.size, 0)
  session.end('expired')
  t.same([session.id, session.csrf, browser.entries.size], [null, null, 0])
  t.same(reasons, [null, 'expired'])
})

t.test('removes the token that an earlier version stored', async t => {
  const [tab, browser] = [storage(), storage()]
  tab.setItem(`svc.token ${base}`, 'the-admin-token')
  browser.setItem(`svc.token ${base}`, 'the-admin-token')
  t.equal(createSession({ base, tab, browser }).id, null)
  t.same([tab.entries.size, browser.entries.size], [0, 0])
})

t.test('follows another tab that signs in or out', async t => {
  const browser = storage()
  const session = createSession({ base, tab: storage(), browser })
  session.begin({ id: 'ses_1', csrf: 'the-csrf' })
  const reasons: unknown[] = []
  session.addEventListener('session', event => reasons.push((event as SessionEvent).reason))
  session.heard({ key: 'svc.theme http://host/', newValue: 'dark' })
  session.heard({ key: 'svc.session http://host/a/', newValue: null })
  t.same(reasons, [], 'something else')
  session.heard({ key: 'svc.session http://host/', newValue: 'ses_2' })
  t.equal(session.csrf, null, 'of a session before')
  session.heard({ key: 'svc.session http://host/', newValue: null })
  session.heard({ key: null, newValue: null })
  t.same(reasons, [null, 'expired', 'expired'])
})

t.test('keeps two servers on one host apart', async t => {
  const browser = storage()
  createSession({ base: 'http://host/a/', tab: storage(), browser }).begin({ id: 'ses_1', csrf: 'x' })
  t.equal(createSession({ base: 'http://host/b/', tab: storage(), browser }).id, null)
})

function chosen(wanted: string[]) {
  const kept = storage()
  return { kept: kept.entries, preferences: createPreferences({ base: 'http://host/', storage: kept, wanted }) }
}

t.test('stores preferences only after a choice, and reads them again', async t => {
  const { kept, preferences } = chosen(['de', 'zh-CN', 'en'])
  t.equal(preferences.theme, 'system')
  t.equal(preferences.language, 'zh', 'the first that the panel speaks')
  t.equal(kept.size, 0)
  preferences.theme = 'dark'
  t.equal(preferences.grouping, 'none')
  preferences.grouping = 'category'
  t.equal(preferences.grouping, 'category')
  preferences.language = 'en'
  t.equal(preferences.theme, 'dark')
  t.equal(preferences.language, 'en')
  kept.set('svc.theme http://host/', 'nonsense')
  t.equal(preferences.theme, 'system')
})

t.test('falls back to English', async t => {
  t.equal(chosen(['de', 'fr']).preferences.language, 'en')
  t.equal(chosen(['en-US', 'zh']).preferences.language, 'en')
})

t.test('keeps whose session it is, for this session only', async t => {
  const browser = storage()
  const session = createSession({ base, tab: storage(), browser })
  const holder: Holder = {
    role: 'deployer',
    name: 'token:ci',
    token: { id: 'tok_a', name: 'ci' },
    projects: ['proj_a']
  }
  session.begin({ id: 'ses_1', csrf: 'the-csrf' })
  t.equal(session.holder, null, 'the server was not asked yet')
  session.holder = holder
  t.strictSame(createSession({ base, tab: storage(), browser }).holder, holder, 'after a reload')
  browser.setItem(`svc.session ${base}`, 'ses_2')
  t.equal(session.holder, null, 'another session began in another tab')
  browser.setItem(`svc.session ${base}`, 'ses_1')
  for (const broken of ['', 'null', '{', '{"session":"ses_1"}', '{"session":"ses_1","role":"root"}']) {
    browser.setItem(`svc.holder ${base}`, broken)
    t.equal(session.holder, null, broken)
  }
  session.holder = holder
  session.end('signed_out')
  t.equal(session.holder, null)
  t.equal(browser.entries.size, 0)
  session.holder = holder
  t.equal(browser.entries.size, 0, 'an answer after the end is not kept')
})
