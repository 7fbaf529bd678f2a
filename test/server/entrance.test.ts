import t from 'tap'
import { chmodSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../lib/base/clock.js'
import { prepareEntrance, type EntranceOptions } from '../../lib/server/entrance.js'
import { createExpiryWarnings } from '../../lib/http/tls/expiry.js'
import { makeSigned } from '../support/certificates.js'
import { serverSays } from '../support/sentences/server.js'

const report = { info() {}, warn() {} }
const expiry = createExpiryWarnings(report.warn, systemClock)

/** Opens an entrance on a server that only reports where it would listen. */
async function open(options: EntranceOptions, base = '') {
  const asked: object[] = []
  const entrance = await prepareEntrance(options, { base, clock: systemClock, expiry, report })
  const opened = await entrance.open({
    listen: async where => (asked.push(where), where),
    listenOnSocket: async place => void asked.push(place)
  })
  return { ...opened, asked, isSecure: entrance.secure.secure !== undefined }
}

t.test('reports the URL of each kind of address, with its warnings', async t => {
  t.match(await open({}), {
    url: 'http://127.0.0.1:5431',
    asked: [{ host: '127.0.0.1', port: 5431 }],
    warnings: [],
    isSecure: false
  })
  t.match(await open({ host: '::1', port: 80 }, '/a'), { url: 'http://[::1]:80/a', warnings: [] })
  t.match(await open({ host: '0.0.0.0' }), {
    warnings: [serverSays.reachable('0.0.0.0'), /--tls-cert and --tls-key, or 127/]
  })
  const path = join(tmpdir(), 'svc-entrance.sock')
  const socket = { path, mode: 0o660 }
  t.match(await open({ socket }), { url: `unix:${path}`, infos: [], warnings: [], asked: [socket] })
  t.match(await open({ socket }, '/a'), { url: `unix:${path}`, infos: [serverSays.allPathsBelow('/a')] })
  const nowhere = { path: join(tmpdir(), 'svc-none/svc.sock'), mode: 0o660 }
  await t.rejects(
    prepareEntrance({ socket: nowhere }, { base: '', clock: systemClock, expiry, report }),
    { code: 'invalid_address' },
    'refused before it is opened'
  )
})

t.test('opens an encrypted entrance and describes its certificate', async t => {
  const { server } = makeSigned()
  const directory = t.testdir({ 'cert.pem': server.cert, 'key.pem': server.key })
  const tls = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  chmodSync(tls.key, 0o644)
  t.match(await open({ host: '0.0.0.0', port: 443, tls }), {
    url: 'https://0.0.0.0:443',
    infos: [/^Certificate: localhost, 127\.0\.0\.1, until /],
    warnings: [/Other users can read the key/],
    isSecure: true
  })
  await t.rejects(open({ tls: { ...tls, key: tls.cert } }), { code: 'invalid_certificate' })
})
