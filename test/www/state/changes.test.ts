import t from 'tap'
import type { ChangeVersions } from '../../../lib/model/health.js'
import { createChanges } from '../../../www/state/changes.js'

function stage() {
  const state = { isActive: true, asked: 0, answer: versions(1), fails: false, due: null as (() => void) | null }
  const changes = createChanges({
    ask: async () => {
      state.asked++
      if (state.fails) throw new Error('away')
      return state.answer
    },
    isActive: () => state.isActive,
    intervalMs: 5000,
    later: work => {
      state.due = work
      return () => void (state.due = null)
    }
  })
  const tick = async (): Promise<void> => {
    state.due?.()
    await new Promise(resolve => setImmediate(resolve))
  }
  return { state, changes, tick }
}

function versions(n: number, changed: Partial<ChangeVersions> = {}): ChangeVersions {
  const text = String(n)
  return {
    projects: text,
    deployments: text,
    locks: text,
    logSources: text,
    audit: text,
    settings: text,
    sessions: text,
    ...changed
  }
}

t.test('calls a follower once for earlier changes, then for its own topics', async t => {
  const { state, changes, tick } = stage()
  const calls: string[] = []
  const life = new AbortController()
  changes.follow(['deployments'], () => void calls.push('deployments'), life.signal)
  changes.follow(['audit', 'projects'], () => void calls.push('audit'), life.signal)
  await tick()
  t.same(calls.splice(0), ['deployments', 'audit'])
  await tick()
  t.same(calls, [])
  state.answer = versions(1, { projects: '2', audit: '2' })
  await tick()
  t.same(calls.splice(0), ['audit'], 'once for two topics')
  changes.follow(['projects'], () => void calls.push('late'), life.signal)
  await tick()
  t.same(calls, [], 'it has loaded after the last look')
  life.abort()
  state.answer = versions(3)
  await tick()
  t.same(calls, [])
  t.equal(state.due, null, 'nobody follows: nothing is planned')
  const { asked } = state
  changes.look()
  t.equal(state.asked, asked)
})

t.test('a hidden tab does not poll, and catches up when it becomes visible', async t => {
  const { state, changes, tick } = stage()
  let calls = 0
  changes.follow(['projects'], () => void calls++, new AbortController().signal)
  state.isActive = false
  for (let n = 0; n < 5; n++) await tick()
  t.equal(state.asked, 0)
  state.isActive = true
  changes.look()
  await tick()
  t.equal(calls, 1)
})

t.test('calls a busy follower again', async t => {
  const { changes, tick } = stage()
  const answers = [false, false, true]
  let calls = 0
  changes.follow(['projects'], () => answers[calls++], new AbortController().signal)
  for (let n = 0; n < 6; n++) await tick()
  t.equal(calls, 3)
})

t.test('a failed poll changes nothing', async t => {
  const { state, changes, tick } = stage()
  let calls = 0
  changes.follow(['projects'], () => void calls++, new AbortController().signal)
  await tick()
  state.fails = true
  state.answer = versions(2)
  await tick()
  t.equal(calls, 1)
  state.fails = false
  await tick()
  t.equal(calls, 2)
})
