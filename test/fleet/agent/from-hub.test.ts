import t from 'tap'
import { generateKeyPairSync, sign } from 'node:crypto'
import { createKeyring, createStreamReader, readRelease, readSession } from '../../../lib/fleet/agent/from-hub.js'
import { hubKeyText, lineText, releaseText, sessionText, type DesiredLine } from '../../../lib/model/fleet-wire.js'
import { releaseDocument } from '../../support/release-document.js'
import { createRandom, type Random } from '../../support/random.js'
import { firstSeed } from '../../support/thorough.js'

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
