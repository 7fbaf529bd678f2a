import t from 'tap'
import { reportFailure, reportRequest, type Reporter } from '../../lib/server/reporter.js'

function reporter(): { report: Reporter; calls: unknown[][] } {
  const calls: unknown[][] = []
  return { report: { info: (...given) => void calls.push(given), warn: (...given) => void calls.push(given) }, calls }
}

t.test('reports a failure with the stack of its error', async t => {
  const { report, calls } = reporter()
  const error = new TypeError('a bug')
  reportFailure(report, 'Archives could not be pruned', error)
  reportFailure(report, 'It failed', 'no error object')
  reportFailure(report, 'The limit of open files is reached')
  t.match(calls, [
    [/^Archives could not be pruned: TypeError: a bug\n +at /, { message: 'Archives could not be pruned', error }],
    ['It failed: no error object', { message: 'It failed', error: 'no error object' }],
    ['The limit of open files is reached']
  ])
})

t.test('reports a request as a line and as parts', async t => {
  const { report, calls } = reporter()
  const event = { kind: 'request', method: 'GET', path: '/api/projects', status: 200, address: '192.0.2.1' } as const
  reportRequest(report, { ...event, ms: 1.2345, aborted: false })
  reportRequest(report, { ...event, ms: 20, aborted: true })
  t.strictSame(calls[0], [
    '192.0.2.1 GET /api/projects 200 1.2 ms',
    { method: 'GET', path: '/api/projects', status: 200, ms: 1.2, address: '192.0.2.1', aborted: false }
  ])
  t.equal(calls[1]?.[0], '192.0.2.1 GET /api/projects 200 20 ms, aborted')
})
