import t from 'tap'
import { generateKeyPairSync, sign } from 'node:crypto'
import {
  createKeyring,
  createStreamReader,
  isSignedBy,
  publicKeyOf,
  readRelease,
  readReleaseDocument,
  readSession,
  signedHeaders
} from '../../../lib/fleet/agent/from-hub.js'
import {
  type DesiredLine,
  hubKeyText,
  lineText,
  releaseText,
  requestText,
  sessionText
} from '../../../lib/model/fleet-wire.js'
import { nodeSettings } from '../../../lib/model/project.js'
import { exampleValues, wrongRecords } from '../../support/project-examples.js'
import { releaseDocument } from '../../support/release-document.js'
import { createRandom, type Random } from '../../support/random.js'
import { firstSeed } from '../../support/thorough.js'
import { defaultGate } from '../../../lib/model/policy.js'
import { defaultRolloutPolicy } from '../../../lib/model/rollout.js'
import { openAgentKey } from '../../../lib/fleet/agent/identity.js'

/*
 * The hostile peer of an agent: it has recorded what its hub said, in this session and in others, and sends it again, in any
 * order, with lines left out, doubled and changed, and with lines of its own.
 */

function aKey() {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const text = Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url').toString('base64')
  return { text, sign: (given: string) => sign(null, Buffer.from(given), privateKey).toString('base64') }
}

const hub = aKey()
const stranger = aKey()
const asked = { nodeId: 'n1', session: 's', counter: 4 }
const order: DesiredLine = {
  type: 'order',
  epoch: 'e',
  projectId: 'p',
  rolloutId: 'ro',
  number: 1,
  attempt: 2,
  action: 'swap',
  deployId: 'd',
  treeSha256: 'aa',
  archiveSha256: 'bb',
  archiveBytes: 3
}
const lines: DesiredLine[] = [
  { type: 'welcome', version: '2', heartbeatMs: 15_000, hubs: ['https://hub.example'] },
  order,
  { type: 'unplaced', projectId: 'p' },
  { type: 'relay', id: 'r', request: '{}' },
  { type: 'input', id: 'r', number: 1, bytes: 'bHM=' },
  { type: 'heartbeat' }
]

/** Returns lines as the hub sends them. */
function recorded(given: readonly object[], { about = asked, key = hub, ms = 0, from = 1 } = {}): string[] {
  return given.map((line, index) => {
    const json = JSON.stringify({ ...line, line: from + index, ms })
    return `${json.slice(0, -1)},"seal":"${key.sign(lineText(about, from + index, json))}"}`
  })
}

const keyring = () => createKeyring(hub.text, () => {})
const reader = (nowMs = () => 0) => createStreamReader({ asked, keyring: keyring(), nowMs })

t.test('lines in their places are read, and only the fields of their type', async t => {
  const read = reader()
  const more = lines.map(line => ({ ...line, signature: 'x', hubs2: [] }))
  t.strictSame(recorded(more).map(read), lines)
  t.strictSame(
    recorded([{ type: 'dance' }, { ...order, action: 'dance' }, { type: 'toString' }, { type: { toString: 1 } }], {
      from: 7
    }).map(read),
    [null, null, null, null]
  )
})

t.test('a line of each type without a signature ends the stream', async t => {
  for (const line of [...lines, { type: 'key', hubKey: stranger.text, signature: '' }])
    t.throws(() => reader()(JSON.stringify(line)), { code: 'bad_line', message: /not signed/ }, line.type)
  for (const text of ['', '{', '1', '{"type":"heartbeat","seal":"x"}'])
    t.throws(() => reader()(text), { code: 'bad_line' })
})

t.test('a signed line with wrong fields ends the stream', async t => {
  for (const line of [
    { ...order, attempt: '2' },
    { ...order, number: -1 },
    { ...order, projectId: 'a\nb' },
    { type: 'unplaced' },
    { type: 'welcome', version: '1', heartbeatMs: 1, hubs: ['file:///etc'] }
  ])
    t.throws(() => reader()(recorded([line])[0] as string), { code: 'bad_line', message: /missing or of another type/ })
})

t.test('a line counts only for its node, its session, its request and its key', async t => {
  for (const other of [{ nodeId: 'n2' }, { session: 't' }, { counter: 5 }])
    for (const text of recorded(lines, { about: { ...asked, ...other } }))
      t.throws(() => reader()(text), { code: 'bad_line' }, JSON.stringify(other))
  t.throws(() => reader()(recorded(lines, { key: stranger })[0] as string), { message: /has not signed it/ })
})

t.test(
  'seeded: whatever is replayed, reordered, left out, doubled or changed ends the stream at that line',
  async t => {
    const own = recorded(lines)
    const others = [
      ...recorded(lines, { about: { ...asked, session: 'earlier' } }),
      ...recorded(lines, { about: { ...asked, nodeId: 'n2' } }),
      ...recorded(lines, { key: stranger }),
      ...lines.map(line => JSON.stringify(line))
    ]
    const random = createRandom(23 + firstSeed)
    for (let history = 0; history < 400; history++) {
      const read = reader()
      let place = 0
      for (let step = 0; step < 10; step++) {
        const kind = random.below(5)
        const at = kind === 0 ? place : random.below(own.length)
        const text = kind === 1 ? (others[random.below(others.length)] as string) : (own[at] ?? own[0])
        const sent = kind === 2 ? changed(text as string, random) : (text as string)
        if (sent === own[place]) {
          t.strictSame(read(sent), lines[place])
          place++
          continue
        }
        t.throws(() => read(sent), { code: 'bad_line' })
        break
      }
    }
  }
)

/** Changes one character of a text. */
function changed(text: string, random: Random): string {
  // The last character of a seal has bits without meaning.
  const at = random.below(text.length - 8)
  const other = String.fromCharCode(text.charCodeAt(at) ^ (1 << random.below(6)))
  return text.slice(0, at) + other + text.slice(at + 1)
}

t.test('says which line is missing', async t => {
  const read = reader()
  const [first, , third] = recorded(lines) as [string, string, string]
  read(first)
  t.throws(() => read(third), { message: /it has the number 3 instead of 2/ })
})

t.test('a line that was held back for more than a minute ends the stream; clocks may run apart a little', async t => {
  let nowMs = 0
  const read = reader(() => nowMs)
  const [first] = recorded([{ type: 'heartbeat' }], { ms: 100 }) as [string]
  read(first)
  nowMs = 604_800_000
  const [second] = recorded([{ type: 'heartbeat' }], { from: 2, ms: nowMs - 120_000 }) as [string]
  t.same(read(second), { type: 'heartbeat' })
  nowMs += 1000
  const [third] = recorded([{ type: 'heartbeat' }], { from: 3, ms: nowMs - 700_000 }) as [string]
  t.throws(() => read(third), { message: /700 s on its way/ })
})

t.test('a session counts if the hub has signed the nonce', async t => {
  const begun = { nodeId: 'n1', counter: 'nonce' }
  const answer = (more: object = {}, key = hub) => ({
    session: 's',
    keys: [],
    signature: key.sign(sessionText({ ...begun, session: 's', ...more }))
  })
  const read = (value: unknown, keys = keyring()) => readSession(value, { address: 'https://a', ...begun }, keys)
  t.equal(read(answer()), 's')
  for (const other of [
    answer({ counter: 'recorded' }),
    answer({ nodeId: 'n2' }),
    answer({ session: 't' }),
    answer({}, stranger)
  ])
    t.throws(() => read(other), { code: 'wrong_hub' })
  t.throws(() => read({ success: true, session: 's' }), { code: 'wrong_hub', message: /Upgrade svc on the hub/ })
  for (const wrong of [
    null,
    1,
    {},
    { ...answer(), keys: 1 },
    { ...answer(), keys: [{}] },
    { ...answer(), session: 'a b' }
  ])
    t.throws(() => read(wrong), { code: 'bad_answer' })
})

t.test('a new key counts if the one before has signed it', async t => {
  const [second, third] = [aKey(), aKey()]
  const follows = (next: { text: string }, by: { sign(text: string): string }) => ({
    hubKey: next.text,
    signature: by.sign(hubKeyText(next.text))
  })
  const learned: string[] = []
  const keys = createKeyring(hub.text, text => void learned.push(text))
  const begun = { nodeId: 'n1', counter: 'nonce' }
  const signature = third.sign(sessionText({ ...begun, session: 's' }))
  const open = (list: object[]) =>
    readSession({ session: 's', keys: list, signature }, { address: 'a', ...begun }, keys)
  t.throws(() => open([follows(third, stranger)]), { code: 'wrong_hub' })
  t.throws(() => open([follows(third, second)]), { code: 'wrong_hub' })
  t.same(learned, [], 'nothing is learned from an answer that is not of the hub')
  open([follows(second, hub), follows(third, second)])
  t.same(learned, [third.text])
  const read = createStreamReader({ asked, keyring: keyring(), nowMs: () => 0 })
  const [line] = recorded([{ type: 'key', ...follows(second, stranger) }]) as [string]
  t.throws(() => read(line), { message: /has not signed/ })
})

t.test('a release counts for the request that asked for it', async t => {
  const text = JSON.stringify(releaseDocument())
  const signature = hub.sign(releaseText(asked, text))
  t.strictSame(readRelease({ text, signature }, asked, keyring()), releaseDocument())
  for (const [sent, given, about] of [
    [JSON.stringify(releaseDocument({ deployId: 'e' })), signature, asked],
    [text, undefined, asked],
    [text, signature, { ...asked, counter: 5 }]
  ] as const)
    t.throws(() => readRelease({ text: sent, signature: given }, about, keyring()), { code: 'wrong_release' })
  const wrong = { text: '{"deployId":"d"}', signature: hub.sign(releaseText(asked, '{"deployId":"d"}')) }
  t.throws(() => readRelease(wrong, asked, keyring()), {
    code: 'wrong_release',
    message: /"release.projectId" is missing/
  })
})

const read = (value: unknown) => readReleaseDocument(JSON.stringify(value))

/** Returns the message with which a document is refused. */
function refusalOf(value: unknown): string {
  try {
    read(value)
  } catch (error) {
    if ((error as { code?: string }).code === 'wrong_release') return (error as Error).message
    throw error
  }
  throw new Error('The document is not refused')
}

/** A document with a value in every field. */
const full = releaseDocument({
  policy: {
    drift: 'refuse',
    gate: {
      ...defaultGate,
      after: [{ http: 'https://shop.example/', header: { Accept: 'text/html' } }, { tcp: 'db:5432' }]
    },
    confirm: { seconds: 90 },
    protect: ['uploads/**'],
    prune: 'managed'
  },
  project: {
    ...exampleValues([...nodeSettings, 'allowClientScripts', 'maxDiskMb']),
    runAs: null,
    pm2AppName: null
  },
  variables: [
    { name: 'KEY', value: 'secret\nof two lines', secret: true },
    { name: 'EMPTY', value: '', secret: false }
  ],
  offered: { origin: 'source deployment', preDeploy: 'a', postDeploy: 'b', postDeployAsync: true },
  clientEnv: { APP_A: '1', 'not-a-name': 'x' },
  message: 'Fix the basket'
})

t.test('a release is read with all its fields, and with the fewest', async t => {
  t.strictSame(read(full), full)
  t.strictSame(read(releaseDocument()), releaseDocument())
})

t.test('what a later hub adds is dropped if it informs, and refused if it demands', async t => {
  const more = { ...full, signedOff: 'by Ann', variables: full.variables.map(each => ({ ...each, since: '2026' })) }
  t.strictSame(read(more), full)
  t.strictSame(read({ ...full, policy: { ...full.policy, rollout: defaultRolloutPolicy } }).policy, full.policy)
  t.strictSame(read({ ...full, policy: { ...full.policy, rollout: { later: 1 } } }).policy, full.policy)
  t.strictSame(read({ ...full, project: { ...full.project, jail: null, sandbox: '', sealed: false } }), full)
  for (const [field, value] of [
    ['policy.freeze', { ...full, policy: { freeze: true } }],
    ['policy.gate.after[0].grpc', { ...full, policy: { gate: { after: [{ http: 'https://a/', grpc: 1 }] } } }],
    ['policy.confirm.by', { ...full, policy: { confirm: { seconds: 9, by: 'ann' } } }],
    ['project.sandbox', { ...full, project: { sandbox: 'strict' } }],
    ['offered.duringDeploy', { ...full, offered: { origin: 'upload', duringDeploy: 'x' } }],
    ['dryRun', { ...full, dryRun: true }]
  ] as const)
    t.throws(() => read(value), { code: 'wrong_release', message: /upgrade svc on this node/ }, field)
  t.throws(() => read({ ...full, project: { sandbox: 'strict' } }), { message: /"release.project.sandbox" is unknown/ })
})

t.test('a field that is missing, of another type or beyond its limit is refused by its name', async t => {
  const long = (length: number) => 'x'.repeat(length)
  const variables = (more: object) => [{ name: 'A', value: 'abcdef', secret: false, ...more }]
  for (const [field, more] of [
    ['deployId', { deployId: '' }],
    ['projectName', { projectName: 'a\nb' }],
    ['deployPath', { deployPath: undefined }],
    ['archiveBytes', { archiveBytes: -1 }],
    ['fileCount', { fileCount: '3' }],
    ['policy', { policy: undefined }],
    ['policy', { policy: [] }],
    ['policy.drift', { policy: { drift: 'dance' } }],
    ['policy.gate.after', { policy: { gate: { after: 'x' } } }],
    ['project', { project: 'x' }],
    ['project.scriptTimeoutSeconds', { project: { scriptTimeoutSeconds: '3' } }],
    ['project.allowClientScripts', { project: { allowClientScripts: 'yes' } }],
    ['project.preDeployScript', { project: { preDeployScript: long(100_001) } }],
    ['project.allowedEnv[0]', { project: { allowedEnv: ['PATH'] } }],
    ...wrongRecords(nodeSettings).map(([field, project]) => [`project.${field}`, { project }] as const),
    ['variables', { variables: {} }],
    ['variables', { variables: Array.from({ length: 201 }, () => variables({})[0]) }],
    ['variables[0].name', { variables: variables({ name: 'LD_PRELOAD' }) }],
    ['variables[0].value', { variables: variables({ value: 7 }) }],
    ['variables[0].secret', { variables: variables({ secret: undefined }) }],
    ['offered.origin', { offered: {} }],
    ['offered.preDeploy', { offered: { origin: 'upload', preDeploy: ['rm'] } }],
    ['clientEnv.A=B', { clientEnv: { 'A=B': 'x' } }],
    ['clientEnv.A', { clientEnv: { A: { toString: 'x' } } }],
    ['clientEnv', { clientEnv: Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`A${at}`, ''])) }],
    ['message', { message: long(10_001) }]
  ] as const)
    t.match(refusalOf({ ...full, ...more }), `"release.${field}"`)
  for (const text of ['', '{', 'null', '[]', '"x"'])
    t.throws(() => readReleaseDocument(text), { code: 'wrong_release' })
})

t.test('an error never contains the value of a variable', async t => {
  const value = `hunter2\u0000${'x'.repeat(70_000)}`
  for (const variables of [[{ name: 'A', value, secret: true }], [{ name: 'A', value: [value], secret: true }]])
    t.notMatch(refusalOf({ ...full, variables }), 'hunter2')
})

t.test('seeded: a hostile document is refused, or only known fields of known types are left of it', async t => {
  const random = createRandom(31 + firstSeed)
  const known = shapeOf(full)
  let refused = 0
  for (let round = 0; round < 3000; round++) {
    const document = structuredClone(full) as unknown as Record<string, unknown>
    for (let changes = random.below(3); changes >= 0; changes--) spoil(document, random)
    const text = JSON.stringify(document).replaceAll('"proto"', '"__proto__"')
    try {
      const found = shapeOf(readReleaseDocument(text))
      t.strictSame(
        [...found].filter(each => !known.has(each) && !isFree(each)),
        [],
        text
      )
    } catch (error) {
      if ((error as { code?: string }).code !== 'wrong_release') t.fail(`${(error as Error).stack} of ${text}`)
      refused++
    }
  }
  t.ok(refused > 300 && refused < 2900, `${refused} of 3000 are refused`)
})

const strange = [
  null,
  true,
  0,
  -1,
  1e300,
  '',
  'x',
  'a\0b',
  '\u202e',
  [],
  {},
  [[]],
  { proto: { isAdmin: true } },
  [null]
]

/** Replaces, removes or adds one value at any depth. */
function spoil(target: Record<string, unknown>, random: Random): void {
  const names = Object.keys(target)
  const name = names.length === 0 ? 'new' : random.oneOf(names)
  const inner = target[name]
  if (typeof inner === 'object' && inner !== null && random.below(3) > 0)
    return spoil(inner as Record<string, unknown>, random)
  const kind = random.below(4)
  if (kind === 0) delete target[name]
  else
    target[kind === 1 ? random.oneOf(['proto', 'constructor', 'toString', 'new']) : name] = structuredClone(
      random.oneOf(strange)
    )
}

/** Returns the places of a value with their types. */
function shapeOf(value: unknown, place = ''): Set<string> {
  if (typeof value !== 'object' || value === null)
    return new Set([`${place} ${value === null ? 'null' : typeof value}`])
  const inner = Object.entries(value).flatMap(([name, each]) => [
    ...shapeOf(each, Array.isArray(value) ? `${place}[]` : `${place}.${name}`)
  ])
  return new Set(inner)
}

/** Whether a place may also be null or a text, or has a name that its user chooses. */
function isFree(place: string): boolean {
  return /^\.(message|fileCount|project\.\w+) null$|^\.project\.(runAs|pm2AppName) string$|^\.clientEnv\.\w+ string$|^\.policy\.gate\.after\[\]\.header\.\w+ string$/.test(
    place
  )
}

t.test('a request is signed with the key of the agent', async t => {
  const { key, publicKey } = await openAgentKey(t.testdir())
  const request = { nodeId: 'n', session: 's', counter: 3, method: 'GET', path: '/api/x', bodySha256: 'aa' }
  const { authorization = '', ...others } = signedHeaders(key, request)
  const [scheme, nodeId, session, counter, signature = ''] = authorization.split(' ')
  t.strictSame([scheme, nodeId, session, counter], ['SvcNode', 'n', 's', '3'])
  t.strictSame(others, { 'svc-content-sha256': 'aa' })
  const verifier = publicKeyOf(publicKey)
  if (verifier === null) throw new Error('no key')
  const base64 = Buffer.from(signature, 'base64url').toString('base64')
  t.ok(isSignedBy(verifier, requestText(request), base64))
  t.notOk(isSignedBy(verifier, requestText({ ...request, counter: 4 }), base64))
})

t.test('only the key of the hub has signed', async t => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const bytes = publicKey.export({ type: 'spki', format: 'der' }).subarray(12).toString('base64')
  const key = publicKeyOf(bytes)
  if (key === null) throw new Error('no key')
  const signature = sign(null, Buffer.from('text'), privateKey).toString('base64')
  t.ok(isSignedBy(key, 'text', signature))
  t.notOk(isSignedBy(key, 'other', signature))
  t.notOk(isSignedBy(key, 'text', ''))
  t.equal(publicKeyOf('AAAA'), null)
})
