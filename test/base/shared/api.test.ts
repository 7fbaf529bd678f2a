import t from 'tap'
import {
  actorText,
  begunAt,
  projectOfActor,
  tokenOfActor,
  isCutOff,
  isRefused,
  routePath,
  runsCommand,
  formatBytes,
  decisionPath,
  shownStatus,
  waitingOf,
  createEventReader,
  createLineReader,
  type ServerEvent
} from '../../../lib/base/shared/api.js'
import { everyCut } from '../../support/cuts.js'

t.test('the path of a route, with its parameters', async t => {
  t.equal(routePath('GET /api/projects', {}), '/api/projects')
  t.equal(routePath('PUT /api/projects/:id/lock', { id: 'a/b ü' }), '/api/projects/a%2Fb%20%C3%BC/lock')
  t.equal(
    routePath('GET /api/rollouts/:rolloutId/nodes/:node', { rolloutId: 'r', node: 'n' }),
    '/api/rollouts/r/nodes/n'
  )
})

t.test('a hub is cut off if it hears of no leader, or is a follower that cannot follow', async t => {
  t.notOk(isCutOff({ role: 'leader', problem: null }))
  t.notOk(isCutOff({ role: 'leader', problem: 'etcd is full' }), 'its own reads are up to date')
  t.notOk(isCutOff({ role: 'follower', problem: null }))
  t.ok(isCutOff({ role: 'follower', problem: 'The cluster has a newer schema' }))
  t.ok(isCutOff({ role: 'alone', problem: null }))
})

t.test('a project runs a command by its scripts, those of the client, and its checks', t => {
  const plain = { preDeployScript: null, postDeployScript: ' ', policy: {} }
  const table: Array<[project: Parameters<typeof runsCommand>[0], offered: object, runs: boolean]> = [
    [plain, {}, false],
    [plain, { postDeploy: 'id' }, true],
    [{ ...plain, preDeployScript: 'id' }, {}, true],
    [{ ...plain, policy: { gate: null } }, {}, false],
    [{ ...plain, policy: { gate: { after: [{ command: 'id' }] } } }, {}, true],
    [{ ...plain, policy: { gate: { after: [{ tcp: '127.0.0.1:1' }] } } }, {}, false]
  ]
  for (const [project, offered, runs] of table) t.equal(runsCommand(project, offered), runs, JSON.stringify(project))
  t.end()
})

t.test('refuses a plan with a conflict or a failed check', async t => {
  const plan = (conflicts: number, ...checks: boolean[]) => ({
    counts: { conflicts },
    checks: checks.map(ok => ({ ok }))
  })
  t.notOk(isRefused(plan(0, true, true)))
  t.notOk(isRefused(plan(0)))
  t.ok(isRefused(plan(1, true)))
  t.ok(isRefused(plan(0, true, false)))
})

t.test('formats bytes for people', async t => {
  const cases: Array<[bytes: number, text: string]> = [
    [0, '0 B'],
    [1, '1 B'],
    [1023, '1023 B'],
    [1024, '1.0 KB'],
    [1536, '1.5 KB'],
    [4300, '4.2 KB'],
    [10 * 1024, '10 KB'],
    [1023.6 * 1024, '1.0 MB'],
    [1024 ** 2 - 1, '1.0 MB'],
    [5 * 1024 ** 2, '5.0 MB'],
    [500 * 1024 ** 2, '500 MB'],
    [1.5 * 1024 ** 3, '1.5 GB'],
    [2000 * 1024 ** 4, '2000 TB']
  ]
  for (const [bytes, text] of cases) t.equal(formatBytes(bytes), text)
})

const step = (name: string, status: string) => ({ name, status, startedAt: '2030-01-01T10:00:00.000Z' })
const holdUntil = '2030-01-01T11:00:00.000Z'
const held = { heldFor: 'confirm', startTime: '2030-01-01T09:00:00.000Z', holdUntil }

t.test('a deployment waits from the begin of its step "confirm" to the end of that step', async t => {
  const waits = { for: 'confirmation', since: '2030-01-01T10:00:00.000Z', until: holdUntil }
  t.same(waitingOf({ ...held, status: 'running', steps: [step('confirm', 'running')] }), waits)
  t.equal(waitingOf({ ...held, status: 'running', steps: [step('check', 'running')] }), null, 'its checks run')
  t.equal(waitingOf({ ...held, status: 'running', steps: [step('confirm', 'success')] }), null, 'confirmed')
  t.equal(waitingOf({ ...held, status: 'failed', steps: [step('confirm', 'running')] }), null, 'ended')
})

t.test('a deployment waits from its arrival until it is approved, or until its time', async t => {
  const queued = { ...held, status: 'queued', steps: [] }
  for (const heldFor of ['approval', 'schedule'] as const)
    t.same(waitingOf({ ...queued, heldFor }), { for: heldFor, since: held.startTime, until: holdUntil })
  t.equal(waitingOf({ ...queued, heldFor: null }), null, 'it is in the queue')
  t.equal(waitingOf({ ...queued, status: 'failed', heldFor: 'approval' }), null, 'ended')
})

t.test('a rollout is decided on its own page', async t => {
  t.equal(decisionPath({ deployId: 'dep_a', rolloutId: null }), 'deployments/dep_a')
  t.equal(decisionPath({ deployId: 'dep_a', rolloutId: 'ro_a' }), 'rollouts/ro_a')
})

t.test('only a success can have failed in the background', async t => {
  t.equal(shownStatus('success', true), 'failed')
  t.equal(shownStatus('success', undefined), 'success')
  t.equal(shownStatus('running', true), 'running', 'a newer deployment is going on')
})

const message = (data: string, id = ''): ServerEvent => ({ event: 'message', data, id })

for (const { what, input, expected } of [
  {
    what: "the standard's first example (§9.2.6)",
    input: 'data: YHOO\ndata: +2\ndata: 10\n\n',
    expected: [message('YHOO\n+2\n10')]
  },
  {
    what: "the standard's second example: a comment, ids kept and cleared, a space that is data",
    input: ': test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n',
    expected: [message('first event', '1'), message('second event'), message(' third event')]
  },
  {
    what: "the standard's third example: empty data, two empty lines of data, an event that is not ended",
    input: 'data\n\ndata\ndata\n\ndata:',
    expected: [message(''), message('\n')]
  },
  {
    what: 'named events with every kind of line end',
    input: 'event: log\r\nid: 17\r\ndata: {"data":"é"}\r\n\r\nevent: status\rdata: x\r\r: \n',
    expected: [
      { event: 'log', data: '{"data":"é"}', id: '17' },
      { event: 'status', data: 'x', id: '17' }
    ]
  },
  { what: 'an id with NUL is ignored', input: 'id: a\u0000b\ndata: x\n\n', expected: [message('x')] },
  { what: 'a name without data is no event', input: 'event: log\n\n:alive\n\ndata: x\n\n', expected: [message('x')] }
]) {
  t.test(`${what}, cut anywhere`, async t => {
    for (const { pieces, how } of everyCut(input)) {
      const events: ServerEvent[] = []
      const reader = createEventReader({ onEvent: event => void events.push(event) })
      for (const piece of pieces) reader.push(piece)
      t.same(events, expected, how)
    }
  })
}

t.test('passes on comments, but not as events', async t => {
  const comments: string[] = []
  const reader = createEventReader({ onEvent: () => t.fail('no event'), onComment: text => void comments.push(text) })
  reader.push(': first\n\n:second\n\n')
  t.same(comments, [' first', 'second'])
})

t.test('cuts a line that is too long, and ignores the rest', async t => {
  const events: ServerEvent[] = []
  const reader = createEventReader({ onEvent: event => void events.push(event), maxLineLength: 10 })
  for (const piece of ['data: 12345', '6789', '\n\ndata: x\n\n']) reader.push(piece)
  t.same(events, [message('12345'), message('x')])
})

for (const { what, input, eventStream, expected } of [
  { what: 'lines end with \\n or \\r\\n', input: 'a\r\nb\n\nc\n', eventStream: false, expected: ['a', 'b', '', 'c'] },
  { what: 'the last line may lack its end', input: 'a\nb', eventStream: false, expected: ['a', 'b'] },
  { what: 'a lone \\r belongs to its line', input: 'a\rb\r\nc\r', eventStream: false, expected: ['a\rb', 'c\r'] },
  { what: 'in an event stream it ends the line', input: 'a\rb\r\nc\r', eventStream: true, expected: ['a', 'b', 'c'] },
  { what: 'longer characters', input: 'é\n你好\n👩\n', eventStream: false, expected: ['é', '你好', '👩'] },
  { what: 'nothing', input: '', eventStream: false, expected: [] }
]) {
  t.test(`${what}, cut anywhere`, async t => {
    for (const { pieces, how } of everyCut(input)) {
      const lines: string[] = []
      const reader = createLineReader(line => void lines.push(line), { isEventStream: eventStream })
      for (const piece of pieces) reader.push(piece)
      reader.end()
      t.same(lines, expected, how)
    }
  })
}

t.test('a deployment is measured from its begin, not from its record', async t => {
  const [startTime, at] = ['2030-01-01T00:00:00.000Z', '2030-01-02T00:00:00.000Z']
  const row = { startTime, endTime: null, heldFor: null, startAt: null, approvals: [], steps: [] }
  const steps = [
    { name: 'store', startedAt: startTime },
    { name: 'target', startedAt: at }
  ]
  t.equal(begunAt({ ...row, steps }), startTime, 'it did not wait')
  t.equal(begunAt({ ...row, steps, approvals: [{}] }), at, 'it was approved, and runs')
  t.equal(begunAt({ ...row, steps, startAt: at }), at, 'it waited for its time')
  t.equal(begunAt({ ...row, approvals: [{}], endTime: at }), at, 'it never began')
  t.equal(begunAt({ ...row, heldFor: 'approval' }), startTime, 'it still waits')
})

t.test('texts name who acted, not the word of the wire', async t => {
  const nameOf = (id: string): string | undefined => (id === 'proj_a' ? 'shop' : undefined)
  const cases: Array<[actor: string, text: string]> = [
    ['token:ben', 'ben'],
    ['token:admin', 'the token "admin"'],
    ['token:token:ben', 'token:ben'],
    ['project:proj_a', 'the deploy token of shop'],
    ['project:proj_gone', 'the deploy token of proj_gone'],
    ['node:web-1', 'node web-1'],
    ['hub:b', 'hub b'],
    ['admin', 'admin'],
    ['local', 'the operator on the machine'],
    ['global-deploy', 'the global deploy token'],
    ['system', 'svc'],
    ['token:System', 'the token "System"'],
    ['of a later version', 'of a later version']
  ]
  for (const [actor, text] of cases) t.equal(actorText(actor, nameOf), text, actor)
  t.equal(actorText('project:proj_a'), 'the deploy token of proj_a')
  t.same(['project:proj_a', 'admin'].map(projectOfActor), ['proj_a', null])
  t.same(['token:ben', 'admin'].map(tokenOfActor), ['ben', null])
})
