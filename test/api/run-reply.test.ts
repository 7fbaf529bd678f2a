import t from 'tap'
import { runReply } from '../../lib/api/run-reply.js'
import { storedLine, type StoredBlock } from '../../lib/deploy/output/stored-output.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { startServer } from '../support/http-server.js'

t.test('sends lines while they arrive, then the result', async t => {
  async function* follow(): AsyncIterable<StoredBlock> {
    for (const text of ['one', 'two "quoted"']) {
      yield { bytes: Buffer.from(storedLine('2030-01-01T00:00:00.000Z', text)), offset: 0 }
    }
  }
  const row = { id: 'dep_a', status: 'failed', duration: '1.00s' } as DeploymentRow
  const reply = runReply(
    { deployId: 'dep_a', finished: Promise.resolve(row) },
    { follow, unrecorded: () => null, confirmUntil: () => null },
    'https://deploy.example.org/deployments/dep_a'
  )
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  t.same(reply.headers['x-svc-deploy-url'], 'https://deploy.example.org/deployments/dep_a')
  const written: string[] = []
  const { signal } = new AbortController()
  await reply.run({
    signal,
    write: async chunk => void written.push(String(chunk)),
    sendHead: () => void written.push('head ')
  })
  t.equal(
    written.join(''),
    [
      'head {"event":"log","data":"one"}',
      '{"event":"log","data":"two \\"quoted\\""}',
      '{"event":"status","status":"failed","duration":"1.00s","deployId":"dep_a"}',
      ''
    ].join('\n')
  )
})

t.test('an unreadable output changes neither the headers nor the result', async t => {
  const row = { id: 'dep_a', status: 'success', duration: '1.00s' } as DeploymentRow
  const follow = (): AsyncIterable<StoredBlock> => ({
    [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error('EIO: i/o error, read\nforged')) })
  })
  const { url } = await startServer(t, [
    {
      method: 'GET',
      path: '/run',
      auth: 'public',
      handle: () =>
        runReply(
          { deployId: 'dep_a', finished: Promise.resolve(row) },
          { follow, unrecorded: () => null, confirmUntil: () => null },
          null
        )
    }
  ])
  const answer = await fetch(`${url}/run`)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('x-svc-deploy-id'), 'dep_a')
  t.strictSame(
    (await answer.text())
      .trim()
      .split('\n')
      .map(line => JSON.parse(line)),
    [
      { event: 'log', data: '✗ Cannot read the output: EIO: i/o error, read\\nforged' },
      { event: 'status', status: 'success', duration: '1.00s', deployId: 'dep_a' }
    ]
  )
})

t.test('sends the headers before the first line', async t => {
  let begin: () => void = () => {}
  const begun = new Promise<void>(resolve => (begin = resolve))
  async function* follow(): AsyncIterable<StoredBlock> {
    await begun
  }
  const row = { id: 'dep_a', status: 'success', duration: '1.00s' } as DeploymentRow
  const { url } = await startServer(t, [
    {
      method: 'GET',
      path: '/run',
      auth: 'public',
      handle: () =>
        runReply(
          { deployId: 'dep_a', finished: Promise.resolve(row) },
          { follow, unrecorded: () => null, confirmUntil: () => null },
          null
        )
    }
  ])
  const answer = await fetch(`${url}/run`)
  t.equal(answer.headers.get('x-svc-deploy-id'), 'dep_a')
  begin()
  t.match(await answer.text(), /"status":"success"/)
})

t.test('reports that the result is not recorded yet, and the result', async t => {
  async function* follow(): AsyncIterable<StoredBlock> {}
  const row = { id: 'dep_a', status: 'success', duration: '1.00s' } as DeploymentRow
  const deployer = {
    follow,
    unrecorded: (id: string) => `the end of ${id} is not recorded yet`,
    confirmUntil: () => null
  }
  const reply = runReply({ deployId: 'dep_a', finished: Promise.resolve(row) }, deployer, null)
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  const written: string[] = []
  const { signal } = new AbortController()
  await reply.run({ signal, write: async chunk => void written.push(String(chunk)), sendHead: () => {} })
  t.strictSame(written.join('').split('\n'), [
    '{"event":"log","data":"→ the end of dep_a is not recorded yet"}',
    '{"event":"status","status":"success","duration":"1.00s","deployId":"dep_a"}',
    ''
  ])
})

t.test('says once that the deployment waits to be confirmed', async t => {
  async function* follow(): AsyncIterable<StoredBlock> {
    for (const text of ['extracted', 'waiting', 'confirmed']) {
      yield { bytes: Buffer.from(storedLine('2030-01-01T00:00:00.000Z', text)), offset: 0 }
    }
  }
  const until = '2030-01-01T00:01:30.000Z'
  const answers = [null, until, until]
  const row = { id: 'dep_a', status: 'success', duration: '1.00s' } as DeploymentRow
  const deployer = { follow, unrecorded: () => null, confirmUntil: () => answers.shift() ?? null }
  const reply = runReply({ deployId: 'dep_a', finished: Promise.resolve(row) }, deployer, null)
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  const written: string[] = []
  const { signal } = new AbortController()
  await reply.run({ signal, write: async chunk => void written.push(String(chunk)), sendHead() {} })
  const events = written
    .join('')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { event: string })
  t.strictSame(
    events.map(({ event }) => event),
    ['log', 'log', 'confirm', 'log', 'status']
  )
  t.strictSame(events[2], { event: 'confirm', deployId: 'dep_a', until })
})

t.test('ends without a result if the next start continues the deployment', async t => {
  const row = { id: 'dep_a', status: 'running', duration: null } as DeploymentRow
  const deployer = { async *follow() {}, unrecorded: () => null, confirmUntil: () => null }
  const reply = runReply({ deployId: 'dep_a', finished: Promise.resolve(row) }, deployer, null)
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  const written: string[] = []
  const { signal } = new AbortController()
  await reply.run({ signal, write: async chunk => void written.push(String(chunk)), sendHead() {} })
  t.strictSame(written, [])
})
