/* Public keys in the forms of their tools, lines of allowed_signers, and names of keys. */
import { generateKeyPairSync, verify } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import {
  looksLike,
  nameFault,
  publicKeyOf,
  rawKey,
  readAllowedSigners,
  readPrivateKey,
  readPublicKey,
  readSignersFile,
  armored,
  bytesOf,
  linesOf,
  sshReader,
  unreadable
} from '../../../lib/core/proof/keys.js'
import { fingerprintBySsh, minisignKey, missing, sshKey } from '../../support/signing-tools.js'
import { sshString } from '../../../lib/core/proof/statement.js'

const line = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMfdjxhFxX7lIRRULCcTKu/vFKhZOdeq4WVbLnYAzbOI'

t.test('keys of ssh-keygen', { skip: missing('ssh-keygen') }, async t => {
  const ana = sshKey(t.testdir(), 'ana')
  const key = readPublicKey(ana.publicText)
  t.equal(key.fingerprint, fingerprintBySsh(ana.path), 'a fingerprint is that of ssh-keygen')
  t.equal(key.comment, 'ana@laptop')
  t.strictSame(readPublicKey(key.text).fingerprint, key.fingerprint, 'its text is read again')
  t.throws(() => readPublicKey(sshKey(t.testdir(), 'rsa', { type: 'rsa' }).publicText), /only Ed25519/)
})

t.test('keys of minisign', { skip: missing('minisign') }, async t => {
  const ana = minisignKey(t.testdir(), 'ana')
  const key = readPublicKey(ana.publicText)
  t.equal(key.kind, 'minisign')
  t.equal(readPublicKey(key.text).fingerprint, key.fingerprint)
})

t.test('keys of svc', async t => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const key = publicKeyOf(readPrivateKey(pem))
  t.equal(key.kind, 'svc')
  t.equal(readPublicKey(key.text).fingerprint, key.fingerprint)
  t.equal(publicKeyOf(publicKey).fingerprint, key.fingerprint)
  t.throws(() => readPublicKey(pem), /it is a private key/, 'a private key is not accepted, and not repeated')
  t.throws(() => readPrivateKey('-----BEGIN PRIVATE KEY-----'), Refusal)
  t.throws(() => rawKey(Buffer.alloc(31)), Refusal)
})

t.test('keys for which anybody can sign', async t => {
  const identity = Buffer.concat([Buffer.of(1), Buffer.alloc(31)])
  const forged = Buffer.concat([identity, Buffer.alloc(32)])
  t.equal(verify(null, Buffer.from('anything'), rawKey(identity), forged), true, 'without a private key')
  for (const first of [0, 1]) {
    for (const sign of [0, 0x80]) {
      const raw = Buffer.concat([Buffer.of(first), Buffer.alloc(30), Buffer.of(sign)])
      const key = rawKey(raw)
      const blob = Buffer.concat([sshString(Buffer.from('ssh-ed25519')), sshString(raw)])
      const spki = key.export({ type: 'spki', format: 'der' }).toString('base64')
      const forms = {
        svc: `-----BEGIN PUBLIC KEY-----\n${spki}\n-----END PUBLIC KEY-----`,
        'svc in a line': `ana ${spki}`,
        ssh: `ssh-ed25519 ${blob.toString('base64')}`,
        minisign: Buffer.concat([Buffer.from('Ed01234567'), raw]).toString('base64')
      }
      for (const [form, text] of Object.entries(forms)) t.throws(() => readPublicKey(text), /weak key/, form)
    }
  }
  const other = Buffer.concat([Buffer.from('E`01234567'), Buffer.alloc(32, 7)]).toString('base64')
  t.throws(() => readPublicKey(other), /algorithm is not known/)
})

t.test('lines of allowed_signers', async t => {
  const text = `# who signs\n\nana@laptop,other namespaces="git,svc-deploy",valid-after="20260102Z",valid-before="20270101Z" ${line} Ana\n`
  const [signer] = readAllowedSigners(text)
  t.match(signer, { name: 'ana@laptop', notBefore: '2026-01-02T00:00:00.000Z', notAfter: '2027-01-01T00:00:00.000Z' })
  t.equal(readPublicKey(`ana ${line}`).fingerprint, signer?.key.fingerprint, 'one line is read as a key, too')
  const own = publicKeyOf(generateKeyPairSync('ed25519').privateKey)
  const [ofSvc] = readAllowedSigners(`ci valid-after="20260102Z" ${own.text.split('\n')[1]}\n`)
  t.match(ofSvc, { name: 'ci', notBefore: '2026-01-02T00:00:00.000Z' }, 'a key of svc is a line of its file')
  t.match(ofSvc?.key, { kind: 'svc', fingerprint: own.fingerprint })
  const bad = {
    'cert-authority': `ana cert-authority ${line}`,
    'another namespace': `ana namespaces="git" ${line}`,
    'no key': 'ana',
    'an empty name': `"" ${line}`,
    'a name that looks like another': `аna ${line}`,
    'a bad time': `ana valid-after="2026" ${line}`,
    'a damaged key': `ana ${line.slice(0, -3)}`
  }
  for (const [name, text] of Object.entries(bad)) t.throws(() => readAllowedSigners(text), Refusal, name)
  const directory = t.testdir()
  t.strictSame(readSignersFile(join(directory, 'missing')), [], 'a missing file contains none')
  writeFileSync(join(directory, 'bad'), 'ana\n')
  t.throws(() => readSignersFile(join(directory, 'bad')), { code: 'signers_unreadable' })
})

t.test('names of keys', async t => {
  for (const name of ['ana@laptop', 'CI runner 3', 'a']) t.equal(nameFault(name), null, name)
  for (const name of ['', ' ana', 'аna', 'a\u202eb', 'a'.repeat(101), 'a  b', '-x'])
    t.type(nameFault(name), 'string', name)
  for (const [one, other] of [
    ['ana', 'ANA'],
    ['bill', 'bi11'],
    ['mark', 'rnark'],
    ['o-1', '0I']
  ] as const)
    t.equal(looksLike(one), looksLike(other), `${one} looks like ${other}`)
  t.not(looksLike('ana'), looksLike('anna'))
})

/* Bytes of SSH, base64 and lines: whole, cut at each byte, and with something behind. */

t.test('bytes of SSH', async t => {
  const bytes = Buffer.concat([Buffer.from([0, 0, 0, 7]), sshString(Buffer.from('one')), sshString(Buffer.from('two'))])
  const reader = sshReader(bytes, 'it')
  t.equal(reader.number(), 7)
  t.equal(reader.text(), 'one')
  t.throws(() => reader.end(), Refusal, 'something follows')
  t.equal(reader.string().toString(), 'two')
  reader.end()
  for (let length = 0; length < bytes.length; length++) {
    const cut = sshReader(bytes.subarray(0, length), 'it')
    t.throws(() => [cut.number(), cut.text(), cut.string()], Refusal, `cut at ${length}`)
  }
  t.throws(() => sshReader(Buffer.from('ffffffff', 'hex'), 'it').string(), Refusal, 'a length of 4 GB is refused')
})

t.test('texts', async t => {
  t.equal(bytesOf('AAAA', 'it').length, 3)
  for (const text of ['', 'AAA', 'AA A', 'AB==', 'A'.repeat(300_000)]) t.throws(() => bytesOf(text, 'it'), Refusal)
  t.strictSame(linesOf('a\r\nb\n\n', 'it'), ['a', 'b'])
  t.throws(() => linesOf('a'.repeat(300_000), 'it'), Refusal)
  t.equal(armored('-----BEGIN X-----\nAA\nAA\n-----END X-----\n', 'X', 'it').length, 3)
  t.throws(() => armored('-----BEGIN Y-----\nAAAA\n-----END Y-----\n', 'X', 'it'), Refusal)
  t.match(unreadable('it', 'why'), { code: 'key_unreadable', message: 'Cannot read it: why' })
})
