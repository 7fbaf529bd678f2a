import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { createReload, type Reporter, reportFailure, reportRequest } from '../../lib/server/report.js'

function reporter() {
  const told: string[] = []
  return {
    told,
    info: (line: string) => void told.push(line),
    warn: (line: string) => void told.push(`warning: ${line}`)
  }
}

t.test('reports in one line what has changed, or that nothing has', async t => {
  const report = reporter()
  await createReload([async () => 'a token', async () => null, async () => 'a certificate'], report)()
  await createReload([async () => null], report)()
  t.same(report.told, ['Reloaded: a token, a certificate', 'Reloaded: nothing has changed'])
})

t.test('warns of what cannot be read, and still reads everything else', async t => {
  const report = reporter()
  const broken = async () => Promise.reject(new Refusal('invalid', 'invalid_tls', 'cert.pem is no certificate'))
  const bug = async () => Promise.reject(new TypeError('a bug'))
  await createReload([broken, bug, async () => 'a token'], report)()
  t.match(report.told, [
    'warning: Not reloaded, the previous value stays in use: cert.pem is no certificate',
    /^warning: Not reloaded, the previous value stays in use: TypeError: a bug\n +at /,
    'Reloaded: a token'
  ])
})

t.test('runs two reloads one after the other', async t => {
  let running = 0
  const most: number[] = []
  const reload = createReload(
    [
      async () => {
        most.push(++running)
        await new Promise(resolve => setImmediate(resolve))
        running--
        return null
      }
    ],
    reporter()
  )
  await Promise.all([reload(), reload(), reload()])
  t.same(most, [1, 1, 1])
})

function recorder(): { report: Reporter; calls: unknown[][] } {
  const calls: unknown[][] = []
  return { report: { info: (...given) => void calls.push(given), warn: (...given) => void calls.push(given) }, calls }
}

t.test('reports a failure with the stack of its error', async t => {
  const { report, calls } = recorder()
  const error = new TypeError('a bug')
  reportFailure(report, 'Archives could not be pruned', error)
  reportFailure(report, 'It failed', 'no error object')
  const refusal = new Refusal('unavailable', 'database_unavailable', 'The database is closed')
  reportFailure(report, 'It failed', refusal)
  reportFailure(report, 'The limit of open files is reached')
  t.match(calls, [
    [/^Archives could not be pruned: TypeError: a bug\n +at /, { message: 'Archives could not be pruned', error }],
    ['It failed: no error object', { message: 'It failed', error: 'no error object' }],
    ['It failed: The database is closed', { message: 'It failed', error: refusal }],
    ['The limit of open files is reached']
  ])
})

t.test('reports a request as a line and as parts', async t => {
  const { report, calls } = recorder()
  const event = { kind: 'request', method: 'GET', path: '/api/projects', status: 200, address: '192.0.2.1' } as const
  reportRequest(report, { ...event, ms: 1.2345, aborted: false })
  reportRequest(report, { ...event, ms: 20, aborted: true })
  t.strictSame(calls[0], [
    '192.0.2.1 GET /api/projects 200 1.2 ms',
    { method: 'GET', path: '/api/projects', status: 200, ms: 1.2, address: '192.0.2.1', aborted: false }
  ])
  t.equal(calls[1]?.[0], '192.0.2.1 GET /api/projects 200 20 ms, aborted')
})
