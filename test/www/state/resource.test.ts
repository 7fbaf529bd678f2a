import t from 'tap'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createChanges, createResource, silenceMs, createMarks } from '../../../www/state/resource.js'
import { noteServerDate, serverNow } from '../../../www/server/client.js'
import type { ChangeVersions } from '../../../lib/model/health.js'
import { mock } from 'node:test'

const hourMs = 3_600_000
const differenceMs = (): number => serverNow() - Date.now()
const dateIn = (ms: number): string => new Date(Date.now() + ms).toUTCString()

t.test('follows the Date of the server, and no noise of it', async t => {
  noteServerDate(dateIn(0), Date.now())
  t.equal(differenceMs(), 0, 'a small difference is none')
  noteServerDate(dateIn(-3 * hourMs), Date.now())
  t.ok(Math.abs(differenceMs() + 3 * hourMs) <= 2000, 'the browser is three hours ahead')
  const before = differenceMs()
  for (const [date, sentAtMs] of [
    [null, Date.now()],
    ['nonsense', Date.now()],
    [dateIn(hourMs), Date.now() - 60_000],
    [dateIn(hourMs), Date.now() + 60_000],
    [dateIn(-3 * hourMs), Date.now()]
  ] as const) {
    noteServerDate(date, sentAtMs)
    t.ok(Math.abs(differenceMs() - before) < 100, `${date} changes nothing`)
  }
  noteServerDate(dateIn(0), Date.now())
  t.equal(differenceMs(), 0, 'the clock of the browser was set')
})

/** Files that measure by the clock of the browser, each with the reason. */
const own: Readonly<Record<string, string>> = {
  'pages/deployment.ts': 'a pause between requests',
  'pages/login.ts': 'a wait that begins here',
  'server/client.ts': 'the way of an answer',
  'server/requests.ts': 'says the clock of this machine to the server',
  'server/terminal.ts': 'a silence'
}

t.test('everything else of the panel asks the clock of the server', async t => {
  const sources = fileURLToPath(new URL('../../../../www/', import.meta.url))
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.ts'))
  const found = files.filter(path => /\bDate\.now\b|new Date\(\)/.test(readFileSync(join(sources, path), 'utf8')))
  t.strictSame(found.map(path => path.replaceAll('\\', '/')).sort(), Object.keys(own).sort())
})

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
    marks: text,
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

t.test('keeps its value after a failed reload, and clears the error after the next success', async t => {
  const answers: Array<() => string> = [
    () => 'first',
    () => {
      throw new Error('away')
    },
    () => 'second'
  ]
  let changes = 0
  const resource = createResource({
    load: async () => (answers.shift() as () => string)(),
    onChange: () => changes++,
    signal: new AbortController().signal
  })
  await resource.load()
  t.same([resource.value, resource.error], ['first', undefined])
  await resource.load()
  t.match([resource.value, resource.error], ['first', { message: 'away' }])
  await resource.load()
  t.same([resource.value, resource.error, changes], ['second', undefined, 3])
})

t.test('cancels an older request when a newer one starts', async t => {
  const waiting: Array<(value: string) => void> = []
  const signals: AbortSignal[] = []
  const resource = createResource<string>({
    load: signal => {
      signals.push(signal)
      return new Promise(resolve => waiting.push(resolve))
    },
    onChange: () => {},
    signal: new AbortController().signal
  })
  const first = resource.load()
  const second = resource.load()
  waiting[1]?.('new')
  waiting[0]?.('old')
  await Promise.all([first, second])
  t.equal(resource.value, 'new')
  t.same(
    signals.map(signal => signal.aborted),
    [true, false]
  )
})

t.test('a refresh waits for the request in progress', async t => {
  const waiting: Array<(value: string) => void> = []
  const resource = createResource<string>({
    load: () => new Promise(resolve => waiting.push(resolve)),
    onChange: () => {},
    signal: new AbortController().signal
  })
  const first = resource.load()
  await resource.refresh()
  t.equal(waiting.length, 1, 'nothing more was asked')
  waiting[0]?.('first')
  await first
  const second = resource.refresh()
  waiting[1]?.('second')
  await second
  t.equal(resource.value, 'second')
})

t.test('a refresh without an answer times out, and the next one sends a new request', async t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const signals: AbortSignal[] = []
  let silences = 0
  let isSilent = true
  const resource = createResource<string>({
    load: async signal => {
      signals.push(signal)
      return isSilent ? new Promise<string>(() => {}) : 'there'
    },
    onChange: () => {},
    onSilence: () => silences++,
    signal: new AbortController().signal
  })
  const silent = resource.refresh()
  mock.timers.tick(silenceMs)
  await silent
  t.match(resource.error, { name: 'Unreachable' })
  t.equal(silences, 1)
  t.ok(signals[0]?.aborted)
  isSilent = false
  await resource.refresh()
  t.same([resource.value, resource.error, silences], ['there', undefined, 1])
})

t.test('marks are asked for once by several followers, heard by the frame, and forgotten with the session', async t => {
  let asked = 0
  const marks = createMarks({
    ask: async () => ({ waiting: [], locks: [], failedInBackground: [`proj_${++asked}`], placed: [] }),
    changes: { follow: () => {} }
  })
  const { signal } = new AbortController()
  let heard = 0
  marks.hear(() => heard++, signal)
  t.equal(asked, 0, 'to hear asks nobody')
  marks.follow(() => {}, signal)
  marks.follow(() => {}, signal)
  await new Promise(resolve => setImmediate(resolve))
  t.same([asked, heard, marks.failedInBackground], [1, 1, ['proj_1']])
  marks.follow(() => {}, signal)
  t.equal(asked, 1, 'what is known is not asked for again')
  marks.forget()
  t.same([heard, marks.failedInBackground], [2, []], 'another user may sign in')
  marks.follow(() => {}, signal)
  await new Promise(resolve => setImmediate(resolve))
  t.same(marks.failedInBackground, ['proj_2'])
})

t.test('marks that were asked for by the user before are not shown to the next one', async t => {
  const answers: Array<(projectId: string) => void> = []
  const marks = createMarks({
    ask: () =>
      new Promise(resolve =>
        answers.push(id => resolve({ waiting: [], locks: [], failedInBackground: [id], placed: [] }))
      ),
    changes: { follow: () => {} }
  })
  const { signal } = new AbortController()
  marks.follow(() => {}, signal)
  marks.forget()
  marks.follow(() => {}, signal)
  t.equal(answers.length, 2, 'the next one asks for its own')
  answers[0]?.('proj_first')
  await new Promise(resolve => setImmediate(resolve))
  t.same(marks.failedInBackground, [])
  answers[1]?.('proj_second')
  await new Promise(resolve => setImmediate(resolve))
  t.same(marks.failedInBackground, ['proj_second'])
})
