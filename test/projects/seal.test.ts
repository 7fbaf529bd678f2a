import { randomBytes } from 'node:crypto'
import t from 'tap'
import { keyBytes, keyIdOf, keyIdOfSealed, seal, sealedBytes, unseal } from '../../lib/projects/seal.js'

const key = randomBytes(keyBytes)
const place = { projectId: 'proj_a', name: 'DB_PASSWORD' }

t.test('opens a sealed value with the same key and place', async t => {
  for (const value of ['hunter22', 'ü\nline', 'x'.repeat(65_536)]) {
    const sealed = seal(key, place, value)
    t.notOk(sealed.includes('hunter'), 'the value is not visible')
    t.equal(unseal(key, place, sealed), value)
    t.equal(sealedBytes(sealed), Buffer.byteLength(value))
    t.equal(keyIdOfSealed(sealed), keyIdOf(key))
    t.not(seal(key, place, value), sealed, 'each has its own nonce')
  }
})

t.test('opens nothing with another key, another place, or a changed byte', async t => {
  const sealed = seal(key, place, 'hunter22')
  t.equal(unseal(randomBytes(keyBytes), place, sealed), null)
  t.equal(unseal(key, { ...place, projectId: 'proj_b' }, sealed), null, 'another project')
  t.equal(unseal(key, { ...place, name: 'DB_PASSWORT' }, sealed), null, 'another name')
  t.equal(unseal(key, { projectId: 'proj_', name: 'aDB_PASSWORD' }, sealed), null)
  const [version, id, ...parts] = sealed.split('.')
  parts.forEach((part, index) => {
    const bytes = Buffer.from(part, 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] as number) ^ 1
      const text = [
        version,
        id,
        ...parts.map((each, of) => (of === index ? changed.toString('base64url') : each))
      ].join('.')
      t.equal(unseal(key, place, text), null, `byte ${at} of part ${index}`)
    }
  })
  for (const text of ['', 'hunter22', sealed.slice(0, -30), `v2${sealed.slice(2)}`, `${sealed}.x`])
    t.equal(unseal(key, place, text), null)
})
