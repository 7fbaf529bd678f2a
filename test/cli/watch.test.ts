import t from 'tap'
import type { Run, RunEvent } from '../../lib/cli/client/runs.js'
import type { Context } from '../../lib/cli/command.js'
import { nothingKnown } from '../../lib/cli/run-result.js'
import { reportRun, watchRun, type Watched } from '../../lib/cli/watch.js'
import { stubClient } from '../support/stub-client.js'
import type { PlannedRollout, UploadPermit } from '../../lib/model/access.js'

const log = (text: string): RunEvent => ({ event: 'log', text }) as RunEvent
const end = { event: 'status', status: 'success', duration: '1.00s', deployId: 'dep_a' } as RunEvent
const broken = Object.assign(new Error('reset'), { code: 'ECONNRESET' })

async function* eventsOf(events: RunEvent[], error?: Error): AsyncGenerator<RunEvent> {
  yield* events
  if (error !== undefined) throw error
}

function stage({
  newest = 'dep_a' as string | null,
  follow = [] as RunEvent[],
  followError = undefined as Error | undefined,
  permit = null as Partial<UploadPermit> | null
} = {}) {
  const said: string[] = []
  const printed: string[] = []
  const paint = { green: (text: string) => text, red: (text: string) => text }
  const output = {
    warn: (line: string) => void said.push(line),
    note: (line: string) => void said.push(line),
    print: (line: string) => void printed.push(line),
    json: (value: object) => void printed.push(JSON.stringify(value)),
    paint
  }
  const followed: string[] = []
  const client = stubClient(
    { 'GET /api/logs': () => (newest === null ? [] : [{ id: newest, projectId: 'proj_a' }]) },
    { address: 'http://h1.test/svc' }
  )
  const context = { output, env: {} } as unknown as Context
  const watch = (run: Partial<Run>, signal = new AbortController().signal) =>
    watchRun({ deployId: null, page: null, ...run } as Run, context, {
      client,
      follow(_, id) {
        followed.push(id)
        return eventsOf(follow, followError)
      },
      projectId: 'proj_a',
      given: { env: 'production' },
      permit: permit as UploadPermit | null,
      print: line => void printed.push(line),
      signal
    })
  return { said, printed, followed, context, watch }
}

t.test('prints the lines and returns the result', async t => {
  const { watch, printed, said } = stage()
  t.strictSame(await watch({ deployId: 'dep_b', events: eventsOf([log('one'), end]) }), {
    outcome: 'ended',
    status: 'success',
    duration: '1.00s',
    deployId: 'dep_a',
    page: null
  })
  t.strictSame([printed, said], [['one'], []])
  await t.rejects(watch({ events: eventsOf([log('one')]) }), { message: /without a status/ })
})

t.test('continues after a broken connection, and prints no line twice', async t => {
  for (const deployId of ['dep_b', null]) {
    const { watch, printed, said, followed } = stage({ follow: [log('one'), log('two'), log('three'), end] })
    t.match(await watch({ deployId, events: eventsOf([log('one'), log('two')], broken) }), { outcome: 'ended' })
    t.strictSame(printed, ['one', 'two', 'three'])
    t.strictSame(followed, [deployId ?? 'dep_a'])
    t.match(said, [/the connection was lost, reconnecting/])
  }
  const lost = stage({ newest: null })
  await t.rejects(lost.watch({ events: eventsOf([], broken) }), broken)
  const other = stage()
  await t.rejects(other.watch({ deployId: 'dep_b', events: eventsOf([], new Error('a bug')) }), { message: 'a bug' })
  t.strictSame(other.followed, [])
  const twice = stage({ followError: broken })
  await t.rejects(twice.watch({ deployId: 'dep_b', events: eventsOf([], broken) }), broken)
})

t.test('prints the whole output of a hub that continues the deployment', async t => {
  const follow = [log('this hub leads now'), log('two'), log('three'), end]
  const { watch, printed } = stage({ follow })
  t.match(await watch({ deployId: 'dep_b', events: eventsOf([log('one'), log('two')], broken) }), { outcome: 'ended' })
  t.strictSame(printed, ['one', 'two', 'this hub leads now', 'two', 'three'])
})

t.test('says where to find the result if the server does not come back', async t => {
  const hubs = ['http://h1.test/svc', 'http://h2.test/svc', 'http://h3.test']
  const cases: Array<[Partial<UploadPermit> | null, RegExp]> = [
    [null, /may have continued\. To see it: svc logs -f dep_b --env production$/],
    [{ hubs: ['http://h1.test/svc'] }, /may have continued/],
    [
      { hubs },
      /another hub .* continues .*: svc logs -f dep_b --env production --server http:\/\/h2\.test\/svc\nOther hubs: http:\/\/h3\.test$/
    ],
    [
      { hubs: hubs.slice(0, 2), rollout: {} as PlannedRollout },
      /: svc rollout status --env production --server \S+h2\.test\/svc$/
    ]
  ]
  for (const [permit, note] of cases) {
    const { watch, said } = stage({ followError: broken, permit })
    await t.rejects(watch({ deployId: 'dep_b', events: eventsOf([log('one')], broken) }), broken)
    t.match(said, [/the connection was lost/, note])
  }
  const { watch, said } = stage({ followError: new Error('a bug') })
  await t.rejects(watch({ deployId: 'dep_b', events: eventsOf([], broken) }), { message: 'a bug' })
  t.equal(said.length, 1)
})

t.test('an interrupted watch leaves the deployment running', async t => {
  const signal = AbortSignal.abort()
  t.strictSame(await stage().watch({ events: eventsOf([], broken) }, signal), {
    outcome: 'detached',
    deployId: 'dep_a'
  })
  t.strictSame(await stage().watch({ deployId: 'dep_b', events: eventsOf([], broken) }, signal), {
    outcome: 'detached',
    deployId: 'dep_b'
  })
  const later = new AbortController()
  const following = stage({ follow: [log('one')], followError: broken })
  const watched = following.watch({ deployId: 'dep_b', events: eventsOf([], broken) }, later.signal)
  later.abort()
  t.strictSame(await watched, { outcome: 'detached', deployId: 'dep_b' })
})

t.test('prints the result and returns the exit code', async t => {
  const ended: Watched = { outcome: 'ended', status: 'success', duration: '84.00s', deployId: 'dep_a', page: null }
  const clientOf = (errorMessage: string | null = null) => {
    const deployment = ({ deployId: id }: { deployId: string }) => {
      if (errorMessage === null) throw new Error('the record cannot be read')
      return { id, errorMessage, message: 'M' }
    }
    const answers = { 'GET /api/logs/:deployId': deployment, 'GET /api/rollouts': () => ({ rollouts: [] }) }
    return stubClient(answers, { address: 'http://svc.test/p' })
  }
  const options = { client: clientOf(), what: 'pushed', json: false, known: { ...nothingKnown(), projectId: 'proj_a' } }
  const page = 'http://svc.test/p/deployments/dep_a'
  const cases: Array<[Watched, code: number, printed: string, said: string[], error?: string]> = [
    [ended, 0, '✔ success: pushed in 1m 24s (dep_a)', [page]],
    [{ ...ended, duration: '60.00s' }, 0, '✔ success: pushed in 1m 0s (dep_a)', [page]],
    [{ ...ended, duration: '59.90s' }, 0, '✔ success: pushed in 59.90s (dep_a)', [page]],
    [{ ...ended, duration: 'long' }, 0, '✔ success: pushed in long (dep_a)', [page]],
    [
      { ...ended, status: 'failed', deployId: null },
      1,
      '✘ failed after 1m 24s: The deployment failed. See its output for the reason (unknown id)',
      []
    ],
    [
      { ...ended, status: 'failed', duration: '0.10s' },
      1,
      '✘ failed after 0.10s: No\\nspace (dep_a)',
      [page],
      'No\nspace'
    ],
    [{ ...ended, page: 'https://a.test/' }, 0, '✔ success: pushed in 1m 24s (dep_a)', ['https://a.test/']]
  ]
  for (const [watched, code, line, notes, error] of cases) {
    const { context, printed, said } = stage()
    t.equal(await reportRun(watched, context, { ...options, client: clientOf(error) }), code)
    t.strictSame([printed, said], [[line], notes])
  }
  const { context, printed, said } = stage()
  await reportRun(ended, context, { ...options, json: true })
  await reportRun({ ...ended, status: 'failed', page: 'https://a.test/' }, context, {
    ...options,
    client: clientOf('No'),
    json: true
  })
  const completed = { rollbackOf: null, message: null, provenance: null, env: '', hasArtifact: true }
  const base = { deployId: 'dep_a', duration: '84.00s', projectId: 'proj_a', provenance: null }
  t.strictSame(
    printed.map(line => JSON.parse(line)),
    [
      { ...base, message: null, status: 'success', url: page, error: null, deployment: null, rollout: null },
      {
        ...base,
        message: 'M',
        status: 'failed',
        url: 'https://a.test/',
        error: { code: 'deployment_failed', message: 'No' },
        deployment: { ...completed, id: 'dep_a', errorMessage: 'No', message: 'M' },
        rollout: null
      }
    ]
  )
  for (const [deployId, command] of [
    [null, 'svc status'],
    ['dep_a', 'svc logs -f dep_a']
  ] as const) {
    await t.rejects(reportRun({ outcome: 'detached', deployId }, context, { ...options, json: true }), {
      name: 'Interrupted'
    })
    t.match(said.at(-1), new RegExp(`Follow it with: ${command}$`))
    t.match(JSON.parse(printed.at(-1) as string), { deployId, status: 'running', error: { code: 'detached' } })
  }
})
