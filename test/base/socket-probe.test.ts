import { once } from 'node:events'
import { renameSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { isListening, maxSocketPathBytes } from '../../lib/base/socket-probe.js'

t.test(
  'finds out whether a process listens on a socket',
  { skip: process.platform === 'win32' && 'these are Unix sockets' },
  async t => {
    const directory = await mkdtemp(join(tmpdir(), 'svc-probe-'))
    t.teardown(() => rm(directory, { recursive: true }))
    const path = join(directory, 'a')
    t.equal(await isListening(path), false, 'no file')
    const server = createServer(socket => socket.destroy()).listen(path)
    await once(server, 'listening')
    t.equal(await isListening(path), true, 'a server listens')
    // Node removes the file when it closes a server. A file with another name stays, as after kill -9.
    renameSync(path, join(directory, 'b'))
    server.close()
    await once(server, 'close')
    t.equal(await isListening(join(directory, 'b')), false, 'the server has ended')
    t.equal(await isListening(`/${'x'.repeat(maxSocketPathBytes)}`), false, 'the path is too long for a socket')
  }
)
