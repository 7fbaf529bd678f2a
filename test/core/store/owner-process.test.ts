import { createServer } from 'node:net'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { findListener } from '../../../lib/core/store/owner-process.js'

const skip = process.platform !== 'linux' && 'only Linux tells who listens'

t.test('finds the process that listens on a socket, also after a rename, or none', { skip }, async t => {
  const directory = mkdtempSync(join(tmpdir(), 'svc owner '))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const path = join(directory, 'svc.sock')
  t.equal(await findListener(path), null)
  const server = createServer().listen(`${path}.0a1b2c`)
  await once(server, 'listening')
  renameSync(`${path}.0a1b2c`, path)
  t.equal(await findListener(path), process.pid)
  t.equal(await findListener(join(directory, 'other.sock')), null)
  server.close()
  await once(server, 'close')
  t.equal(await findListener(path), null)
})
