import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { hubKeyName, openHubKey } from '../../lib/config/hub-key.js'

t.test('the key of a hub is in its data directory, and a damaged one is refused', async t => {
  const directory = t.testdir()
  const { publicKey } = await openHubKey(directory)
  t.ok(existsSync(join(directory, 'keys', hubKeyName)))
  t.equal((await openHubKey(directory)).publicKey, publicKey)
  const other = t.testdir({})
  mkdirSync(join(other, 'keys'), { recursive: true })
  writeFileSync(join(other, 'keys', hubKeyName), '')
  await t.rejects(openHubKey(other), { code: 'hub_key', message: /Restore it from a backup/ })
})
