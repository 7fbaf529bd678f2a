import t from 'tap'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../lib/base/clock.js'
import { prepareEntrance } from '../../lib/main/entrance.js'
import type { EntranceOptions } from '../../lib/main/entrance.js'
import { makeSigned } from '../support/certificates.js'

const report = { info() {}, warn() {} }

/** Opened with a server that only says where it would listen. */
async function open(options: EntranceOptions, base = '') {
  const asked: object[] = []
  const entrance = await prepareEntrance(options, { base, clock: systemClock, report })
  const opened = await entrance.open({
    listen: async where => (asked.push(where), where),
    listenOnSocket: async place => void asked.push(place)
  })
  return { ...opened, asked, isSecure: entrance.secure.secure !== undefined }
}

t.test('addresses as people write them, and what is to be said of them', async t => {
  t.match(await open({}), { url: 'http://127.0.0.1:5431', asked: [{ host: '127.0.0.1', port: 5431 }], warnings: [], isSecure: false })
  t.match(await open({ host: '::1', port: 80 }, '/a'), { url: 'http://[::1]:80/a', warnings: [] })
  t.match(await open({ host: '0.0.0.0' }), { warnings: [/0\.0\.0\.0 can be reached from other machines/, /--tls-cert and --tls-key, or 127/] })
  const socket = { path: '/run/svc.sock', mode: 0o660 }
  t.match(await open({ socket }), { url: 'unix:/run/svc.sock', infos: [], warnings: [], asked: [socket] })
  t.match(await open({ socket }, '/a'), { url: 'unix:/run/svc.sock', infos: ['Everything is below /a/'] })
})

t.test('with a certificate', async t => {
  const { server } = makeSigned()
  const directory = t.testdir({ 'cert.pem': server.cert, 'key.pem': server.key })
  const tls = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  chmodSync(tls.key, 0o644)
  t.match(await open({ host: '0.0.0.0', port: 443, tls }), {
    url: 'https://0.0.0.0:443', infos: [/^Certificate: localhost, 127\.0\.0\.1, until /], warnings: [/can be read by others/], isSecure: true
  })
  await t.rejects(open({ tls: { ...tls, key: tls.cert } }), { code: 'invalid_certificate' })
})
