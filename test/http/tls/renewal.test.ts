import t from 'tap'
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock, type Clock } from '../../../lib/base/clock.js'
import type { Certificate, CertificateFiles } from '../../../lib/http/tls/certificate.js'
import { openRenewal } from '../../../lib/http/tls/renewal.js'
import { makeCertificate, type Identity } from '../../support/certificates.js'
import { serverSays } from '../../support/sentences/server.js'

const first = makeCertificate({ names: ['first.test'] })
const second = makeCertificate({ names: ['second.test'] })

function write({ cert, key }: CertificateFiles, identity: Identity): void {
  writeFileSync(cert, identity.cert)
  writeFileSync(key, identity.key, { mode: 0o600 })
}

/** Opens connections until one finds what `isReached` waits for. */
async function open(files: CertificateFiles, clock: Clock = systemClock) {
  const told = { names: [] as string[], expired: [] as string[], broken: [] as string[] }
  const renewal = await openRenewal({
    files,
    clock,
    onRenewed: ({ names }) => void told.names.push(...names),
    onLook: ({ names, expiresAt }) => {
      if (clock.now() > Date.parse(expiresAt)) told.expired = [...names]
    },
    onBroken: error => void told.broken.push((error as Error).message)
  })
  const shown: Certificate[] = [renewal.certificate]
  return {
    told,
    look: () => renewal.renewed(),
    shown: () => shown.at(-1)?.names[0],
    async until(isReached: () => boolean): Promise<void> {
      while (!isReached()) {
        const next = await renewal.renewed()
        if (next !== null) shown.push(next)
        else await sleep(20)
      }
    }
  }
}

t.test('detects rewritten files', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  write(files, first)
  const stage = await open(files)
  t.equal(stage.shown(), 'first.test')
  write(files, second)
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told, { names: ['second.test'], expired: [], broken: [] })
})

t.test('detects a renewal by certbot: links in live point to other files in archive', async t => {
  const directory = t.testdir({})
  const live = { cert: join(directory, 'live/fullchain.pem'), key: join(directory, 'live/privkey.pem') }
  const archive = (n: number) => ({
    cert: join(directory, `archive/fullchain${n}.pem`),
    key: join(directory, `archive/privkey${n}.pem`)
  })
  for (const name of ['live', 'archive']) mkdirSync(join(directory, name))
  write(archive(1), first)
  for (const file of ['cert', 'key'] as const) symlinkSync(archive(1)[file], live[file])
  const stage = await open(live)
  write(archive(2), second)
  for (const file of ['cert', 'key'] as const) {
    unlinkSync(live[file])
    symlinkSync(archive(2)[file], live[file])
  }
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told.broken, [])
})

t.test('detects a renewal by Kubernetes: ..data points to another directory', async t => {
  const directory = t.testdir({})
  const at = (time: string) => ({ cert: join(directory, time, 'tls.crt'), key: join(directory, time, 'tls.key') })
  for (const [time, identity] of [
    ['..2026_01', first],
    ['..2026_02', second]
  ] as const) {
    mkdirSync(join(directory, time))
    write(at(time), identity)
  }
  symlinkSync('..2026_01', join(directory, '..data'))
  for (const name of ['tls.crt', 'tls.key']) symlinkSync(join('..data', name), join(directory, name))
  const stage = await open({ cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') })
  symlinkSync('..2026_02', join(directory, '..data_tmp'))
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'))
  rmSync(join(directory, '..2026_01'), { recursive: true })
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told.broken, [])
})

t.test(
  'keeps the old certificate if the new file cannot be used, complains once, and then accepts a usable one',
  async t => {
    const directory = t.testdir({})
    const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
    write(files, first)
    const stage = await open(files)
    writeFileSync(files.cert, readFileSync(files.cert, 'utf8').slice(0, 100))
    await stage.until(() => stage.told.broken.length > 0)
    t.match(stage.told.broken[0], new RegExp(`Cannot use the certificate ".*cert\\.pem": ${serverSays.noCertificate}`))
    t.equal(stage.shown(), 'first.test')
    rmSync(files.cert)
    await stage.until(() => stage.told.broken.length > 1)
    t.match(stage.told.broken[1], /no such file or directory/)
    write(files, second)
    await stage.until(() => stage.shown() === 'second.test')
    t.equal(stage.told.broken.length, 2, 'each once')
  }
)

t.test('does not complain if a certificate arrives a moment before its key', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  write(files, first)
  const stage = await open(files)
  writeFileSync(files.cert, second.cert)
  t.equal(await stage.look(), null)
  writeFileSync(files.key, second.key)
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told.broken, [])
})

t.test('complains once about a certificate that expires while it is in use', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  const day = 24 * 60 * 60_000
  write(files, makeCertificate({ names: ['short.test'], to: new Date(Date.now() + day) }))
  let later = 0
  const stage = await open(files, { now: () => Date.now() + later })
  later = 2 * day
  await stage.until(() => stage.told.expired.length > 0)
  write(files, second)
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told, { names: ['second.test'], expired: ['short.test'], broken: [] })
})

t.test('refuses an unusable certificate at the start', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  await t.rejects(open(files), { code: 'invalid_certificate' })
})
