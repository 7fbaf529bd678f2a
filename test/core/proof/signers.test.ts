/* Who signed a statement, and whether what comes with the files is what was signed. */
import t from 'tap'
import { readPublicKey, type PublicKey, publicKeyOf, readAllowedSigners } from '../../../lib/core/proof/keys.js'
import {
  digestOf,
  readStatement,
  writeStatement,
  bareEnvelope,
  envelopeText,
  sealed
} from '../../../lib/core/proof/statement.js'
import {
  faultOfSbom,
  faultOfScripts,
  faultOfTimes,
  readSigned,
  badSignature,
  isMadeBy,
  namesKey,
  readSignatures,
  signerOf
} from '../../../lib/core/proof/signers.js'
import { aKey, signedBy, statementOf, type TestKey } from '../../support/signed-releases.js'
import { generateKeyPairSync } from 'node:crypto'
import { Refusal } from '../../../lib/base/errors.js'
import { statementType } from '../../../lib/base/shared/statement-text.js'
import { minisigned, sshSigned } from '../../../lib/core/proof/signature-formats.js'
import { repetitions } from '../../support/thorough.js'

const [ana, bo, mallory] = [aKey('ana'), aKey('bo'), aKey('mallory')]
const trust = (...keys: TestKey[]) => keys.map(({ row }) => ({ name: row.name, key: readPublicKey(row.public) }))
const text = statementOf('proj_1', { 'index.html': 'new' })

t.test('trusted keys and strangers are told apart, and a key counts once', async t => {
  const sent = signedBy(text, ana, ana, mallory)
  const { keys, strangers, statement } = readSigned(trust(ana, bo, ana), sent)
  t.same(
    keys.map(({ name }) => name),
    ['ana']
  )
  t.same(strangers, [mallory.row.fingerprint])
  t.equal(statement.projectId, 'proj_1')
  t.same(readSigned(trust(), sent).keys, [])
})

t.test('a signature of another statement is refused', async t => {
  const { signatures } = signedBy(statementOf('proj_2', {}), ana)
  t.throws(() => readSigned(trust(ana), { statement: text, signatures }), { code: 'signature_bad' })
  t.throws(() => readSigned(trust(ana), { statement: text, signatures: ['x'] }), { code: 'signature_bad' })
})

t.test('scripts, variables and components are exactly those that were signed', async t => {
  const patch = { scripts: { postDeploy: digestOf('restart') }, env: ['A'], sbomSha256: digestOf('{}') }
  const statement = readStatement(Buffer.from(statementOf('proj_1', {}, patch)))
  t.equal(faultOfScripts(statement, { postDeploy: 'restart', preDeploy: ' \n' }, ['A']), null)
  t.match(faultOfScripts(statement, {}, ['A']), { message: /script postDeploy is missing/ })
  t.match(faultOfScripts(statement, { postDeploy: 'rm' }, ['A']), { message: /postDeploy is not the one/ })
  t.match(faultOfScripts(statement, { postDeploy: 'restart', preDeploy: 'x' }, ['A']), { message: /preDeploy is not/ })
  t.match(faultOfScripts(statement, { postDeploy: 'restart' }, ['A', 'B']), { message: /variable B was not signed/ })
  t.match(faultOfScripts(statement, { postDeploy: 'restart' }, []), { message: /variable A is missing/ })
  t.equal(faultOfSbom(statement, digestOf('{}')), null)
  t.match(faultOfSbom(statement, null), { code: 'signature_bad' })
})

t.test('a key signs within its times', async t => {
  const times = { notBefore: '2026-01-02T00:00:00.000Z', notAfter: '2026-01-04T00:00:00.000Z' }
  t.match(faultOfTimes(times, '2026-01-01T00:00:00.000Z'), /signs only from/)
  t.equal(faultOfTimes(times, '2026-01-02T00:00:00.000Z'), null)
  t.match(faultOfTimes(times, '2026-01-04T00:00:00.000Z'), /has expired/)
  t.equal(faultOfTimes({ notBefore: null, notAfter: null }, '2030-01-01T00:00:00.000Z'), null)
})

/*
 * Signatures of all kinds together, and 100,000 changed envelopes, statements, signatures and keys (THOROUGH=1; otherwise
 * fewer): all are refused, and soon.
 */

const { privateKey } = generateKeyPairSync('ed25519')
const keyId = Buffer.from('01234567')
const own = publicKeyOf(privateKey)
const raw = own.key.export({ type: 'spki', format: 'der' }).subarray(12)
const sshText = `ssh-ed25519 ${Buffer.concat([Buffer.from([0, 0, 0, 11]), Buffer.from('ssh-ed25519'), Buffer.from([0, 0, 0, 32]), raw]).toString('base64')} ana@laptop`
const minisignText = Buffer.concat([Buffer.from('Ed'), keyId, raw]).toString('base64')
const keys = [own, readPublicKey(sshText), readPublicKey(minisignText)]
const statement = writeStatement(
  {
    name: 'shop',
    treeSha256: 'a'.repeat(64),
    projectId: 'proj_abcdefghijklmnop',
    alsoFor: [],
    message: null,
    scripts: {},
    env: [],
    notAfter: null,
    sequence: 1,
    builder: null,
    sbomSha256: null
  },
  { commit: null, repository: null, invocationId: null, startedOn: '2026-12-01T00:00:00.000Z' }
)
const texts = [
  bareEnvelope(statement, privateKey),
  sshSigned(statement, privateKey),
  minisigned(statement, { key: privateKey, keyId }, 'timestamp:1'),
  envelopeText(sealed(statementType, statement, [privateKey]))
]

/** Returns the keys of which these texts contain a good signature. */
function signersOf(texts: readonly string[], bytes: Buffer, of: readonly PublicKey[]): PublicKey[] {
  const signatures = readSignatures(texts, bytes)
  return of.filter(key => signatures.some(each => namesKey(each, key) && isMadeBy(each, bytes, key)))
}

t.test('each kind is verified by its own key', async t => {
  t.equal(signersOf(texts, statement, keys).length, 3)
  const kinds = texts.map(text => signersOf([text], statement, keys).map(({ kind }) => kind))
  t.strictSame(kinds, [['svc'], ['ssh'], ['minisign'], ['svc']], '… though all are the same key')
  const names = readSignatures(texts.slice(0, 3), statement).map(signerOf)
  t.strictSame(names, [own.fingerprint, own.fingerprint, 'minisign 3736353433323130'])
  t.strictSame(signersOf(texts.slice(1, 3), Buffer.from('{}'), keys), [], 'nobody has signed other bytes')
})

t.test('what is refused', async t => {
  const other = envelopeText(sealed(statementType, Buffer.from('{}'), [privateKey]))
  const type = envelopeText(sealed('text/plain', statement, [privateKey]))
  for (const text of [other, type, '', '{}', 'x'.repeat(17_000)])
    t.throws(() => readSignatures([text], statement), { code: 'signature_bad' }, text.slice(0, 50))
  t.throws(
    () =>
      readSignatures(
        Array.from({ length: 17 }, () => texts[0] as string),
        statement
      ),
    Refusal
  )
  t.match(badSignature('why'), { kind: 'forbidden', code: 'signature_bad' })
})

t.test('changed bytes', async t => {
  const rounds = repetitions(1000, 100_000)
  let seed = 42
  const random = (below: number): number => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    return Math.floor((seed / 2 ** 32) * below)
  }
  const change = (given: Buffer): Buffer => {
    const bytes = Buffer.from(given)
    const at = random(bytes.length)
    const kind = random(6)
    if (kind === 0) bytes[at] = (bytes[at] as number) ^ (1 << random(8))
    else if (kind === 1) return bytes.subarray(0, at)
    else if (kind === 2) return Buffer.concat([bytes.subarray(0, at), Buffer.from([random(256)]), bytes.subarray(at)])
    else if (kind === 3) return Buffer.concat([bytes.subarray(0, at), bytes.subarray(random(bytes.length))])
    else if (kind === 4) bytes.fill(random(256), at, Math.min(bytes.length, at + random(8) + 1))
    else return Buffer.concat([bytes, bytes.subarray(at)])
    return bytes
  }
  let [accepted, longest, thrown] = [0, 0, 0]
  const timed = (work: () => boolean): number => {
    // Of this process: other programs of a busy machine are not counted.
    const before = process.cpuUsage()
    try {
      if (work()) accepted++
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      thrown++
    }
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  }
  const attempt = (work: () => boolean): void => {
    const tookMs = timed(work)
    // The collector of garbage runs now and then, for all that was done before.
    longest = Math.max(longest, tookMs < 10 ? tookMs : Math.min(tookMs, timed(work), timed(work)))
  }
  /** Whether two texts say the same: some changes of spaces, comments and base64 change nothing. */
  const same = (text: string, original: string): boolean => {
    const parts = (one: string) => JSON.stringify(readSignatures([one], statement))
    return parts(text) === parts(original)
  }
  const publics = [own.text, sshText, minisignText]
  for (let round = 0; round < rounds; round++) {
    const text = texts[random(texts.length)] as string
    const changed = change(Buffer.from(text)).toString('utf8')
    const bytes = change(statement)
    if (changed !== text) {
      attempt(() => signersOf([changed], statement, keys).length > 0 && !same(changed, text))
    }
    if (!bytes.equals(statement)) attempt(() => signersOf([text], bytes, keys).length > 0)
    attempt(() => {
      readStatement(bytes)
      return false
    })
    const given = publics[random(publics.length)] as string
    attempt(() => {
      const key = readPublicKey(change(Buffer.from(given)).toString('utf8'))
      return key.fingerprint !== own.fingerprint && signersOf(texts, statement, [key]).length > 0
    })
    attempt(() => {
      readAllowedSigners(change(Buffer.from(`ana valid-after="20260101Z" ${sshText}\n`)).toString('utf8'))
      return false
    })
  }
  t.equal(accepted, 0, `none of ${rounds} is accepted`)
  t.ok(thrown > rounds, `${thrown} are refused`)
  t.ok(longest < 50, `the longest took ${longest.toFixed(1)} ms`)
})
