import t from 'tap'
import { createServer } from 'node:http'
import { EtcdConnection, countMembers, EtcdError, Unreachable, errorOf } from '../../../lib/cluster/etcd/connection.js'
import { makeSigned } from '../../support/certificates.js'
import { freePort } from '../../support/free-port.js'
import { anEtcd, startEtcd, withoutEtcd } from '../../support/etcd.js'
import { until } from '../../support/until.js'
import { listen, urlOf } from '../../support/on-loopback.js'

const skip = withoutEtcd()
const key = Buffer.from('/svc/x').toString('base64')
const read = ['/v3/kv/range', { key }] as const

t.test('asks members with TLS and a password, and goes on when one is gone', { skip }, async t => {
  const etcd = await anEtcd(t, { size: 3 })
  const connection = new EtcdConnection(etcd.options)
  t.teardown(() => connection.close())
  t.ok((await connection.ask(...read))['header'])

  await etcd.members[0]?.kill()
  t.ok((await connection.ask(...read))['header'], 'the first member was killed')
  etcd.members[0]?.start()
  await etcd.ready()

  etcd.members[1]?.signal('SIGSTOP')
  const fromMs = performance.now()
  t.ok((await connection.ask(...read))['header'], 'the second member was stopped')
  t.ok(performance.now() - fromMs < 5000)
  etcd.members[1]?.signal('SIGCONT')

  // A restarted member has forgotten its tokens.
  for (const member of etcd.members) await member.kill()
  for (const member of etcd.members) member.start()
  await etcd.ready()
  t.ok((await connection.ask(...read))['header'], 'with a new token')

  const lead = await until(async () => (await etcd.leader()) + 1)
  await connection.preferLeader()
  for (const [at, member] of etcd.members.entries()) if (at !== lead - 1) member.signal('SIGSTOP')
  const status = await connection.ask('/v3/maintenance/status', {}, { limitMs: 1000 })
  t.equal(status['leader'], (status['header'] as { member_id: string }).member_id, 'the member that leads is asked')
  const failing = connection.ask(...read, { limitMs: 3000 })
  await t.rejects(failing, Unreachable, 'no majority')
  for (const member of etcd.members) member.signal('SIGCONT')
})

t.test('refuses a certificate of another authority, and a wrong password', { skip }, async t => {
  const etcd = await anEtcd(t)
  const ca = makeSigned().authority.cert
  const stranger = new EtcdConnection({ ...etcd.options, ca })
  await t.rejects(stranger.ask(...read, { limitMs: 20_000 }), /self-signed|unable to verify|signature/)
  const guessing = new EtcdConnection({ ...etcd.options, password: 'wrong' })
  await t.rejects(guessing.ask(...read, { limitMs: 20_000 }), EtcdError)
  for (const connection of [stranger, guessing]) connection.close()
})

t.test('says of a refusal whether another member was asked before, and did not answer', async t => {
  const silent = createServer(() => {})
  const full = createServer((_, response) => {
    response.writeHead(429).end('{"message":"etcdserver: mvcc: database space exceeded","code":8}')
  })
  const endpoints: string[] = []
  for (const server of [silent, full]) {
    endpoints.push(await urlOf(t, server))
  }
  const closed = `http://127.0.0.1:${await freePort()}`
  for (const [asked, expected] of [
    [endpoints.slice(1), 0],
    [endpoints, 1],
    [[closed, ...endpoints.slice(1)], 0]
  ] as const) {
    const connection = new EtcdConnection({ endpoints: [...asked] })
    let unanswered = 0
    const [path, body] = read
    const asking = connection.ask(path, body, { onUnanswered: () => void unanswered++ })
    t.match(await asking.catch((refused: unknown) => refused), { isFull: true })
    t.equal(unanswered, expected)
    connection.close()
  }
})

t.test('hands over the lines of a stream, and ends it when it is told to', { skip }, async t => {
  const etcd = await anEtcd(t)
  const connection = new EtcdConnection(etcd.options)
  t.teardown(() => connection.close())
  const stop = new AbortController()
  let events = 0
  const watching = connection.stream(
    '/v3/watch',
    { create_request: { key } },
    {
      signal: stop.signal,
      take({ result }) {
        const { created, events: found = [] } = result as { created?: boolean; events?: unknown[] }
        if (created === true) connection.ask('/v3/kv/put', { key, value: 'YQ==' }).catch(() => {})
        events += found.length
        if (events === 1) stop.abort()
      }
    }
  )
  await t.rejects(watching, { name: 'AbortError' })
  t.equal(events, 1)
})

t.test('does not wait longer than it may', async t => {
  const silent = createServer(() => {})
  const port = await listen(t, silent)
  const connection = new EtcdConnection({ endpoints: [`http://127.0.0.1:${port}`, 'http://127.0.0.1:1'] })
  t.teardown(() => connection.close())
  const fromMs = performance.now()
  await t.rejects(connection.ask(...read, { limitMs: 400 }), Unreachable)
  t.ok(performance.now() - fromMs < 2000)
  const stop = new AbortController()
  const asking = connection.ask(...read, { signal: stop.signal })
  setImmediate(() => stop.abort(new Error('enough')))
  await t.rejects(asking, { message: 'enough' })
})

t.test('cuts lines wherever the network cuts them', async t => {
  const lines = ['{"a":"é"}', '{"b":2}', '{"c":[]}']
  const bytes = Buffer.from(`${lines.join('\n')}\n`)
  const server = createServer(async (request, response) => {
    request.resume()
    for (const byte of bytes) {
      response.write(Buffer.of(byte))
      await new Promise(resolve => setImmediate(resolve))
    }
    response.end()
  })
  const connection = new EtcdConnection({ endpoints: [await urlOf(t, server)] })
  t.teardown(() => connection.close())
  const seen: unknown[] = []
  await connection.stream('/v3/watch', {}, { signal: new AbortController().signal, take: line => void seen.push(line) })
  t.strictSame(
    seen,
    lines.map(line => JSON.parse(line) as unknown)
  )
})

t.test('a token that gets no answer is dropped: etcd went back to before it was made', async t => {
  let made = 0
  const member = createServer((request, response) => {
    request.resume()
    if (request.url === '/v3/auth/authenticate') response.end(JSON.stringify({ token: `token ${++made}` }))
    else if (request.headers.authorization !== 'token 1') response.end('{"header":{}}')
  })
  const port = await listen(t, member)
  const connection = new EtcdConnection({ endpoints: [`http://127.0.0.1:${port}`], user: 'svc', password: 'a' })
  t.teardown(() => connection.close())
  t.ok((await connection.ask(...read))['header'])
  t.equal(made, 2)
})

t.test('counts the members of a real etcd from one address', { skip: withoutEtcd() }, async t => {
  for (const size of [1, 2, 3]) {
    const etcd = await startEtcd({ size })
    const endpoints = etcd.options.endpoints.slice(0, 1)
    t.equal(await countMembers({ ...etcd.options, endpoints }), size)
    t.equal(await countMembers({ ...etcd.options, password: 'wrong' }), null, 'etcd does not tell this user')
    await etcd.close()
    if (size === 1) t.equal(await countMembers({ ...etcd.options }), null, 'etcd does not answer')
  }
})

/** Answers of Debian's etcd 3.4 and of 3.5. */
const cases: Array<[status: number, text: string, is: Partial<Record<keyof EtcdError, unknown>>]> = [
  [503, '{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}', { isPassing: true }],
  [503, '{"error":"etcdserver: request timed out","code":14}', { isPassing: true, isFull: false }],
  [504, '{"message":"context deadline exceeded","code":4}', { isPassing: true }],
  [429, '{"message":"etcdserver: too many requests","code":8}', { isPassing: true, isFull: false }],
  [429, '{"message":"etcdserver: mvcc: database space exceeded","code":8}', { isPassing: false, isFull: true }],
  [401, '{"message":"etcdserver: invalid auth token","code":16}', { isTokenRefused: true, isPassing: false }],
  [400, '{"message":"etcdserver: revision of auth store is old","code":3}', { isTokenRefused: true }],
  [400, '{"message":"etcdserver: user name is empty","code":3}', { isTokenRefused: true }],
  [400, '{"message":"etcdserver: request is too large","code":3}', { isTokenRefused: false, isPassing: false }],
  [400, '{"message":"etcdserver: mvcc: required revision has been compacted","code":11}', { isCompacted: true }],
  [404, '{"message":"etcdserver: requested lease not found","code":5}', { isNotFound: true }],
  [502, '<html>Bad gateway</html>', { isPassing: true }]
]
for (const [status, text, is] of cases)
  t.test(`understands ${status} ${text}`, async t => t.match(errorOf(status, text), is))

t.test('says what failed', async t => {
  t.equal(errorOf(503, '{"message":"etcdserver: no leader","code":14}').message, 'etcd: no leader')
  t.equal(new Unreachable(3, new Error('refused')).message, 'None of the 3 members of etcd answers: refused')
  t.equal(new Unreachable(1, null).message, 'etcd does not answer')
})
