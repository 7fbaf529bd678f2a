import t from 'tap'
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../lib/base/clock.js'
import type { Certificate, CertificateFiles } from '../../lib/http/certificate.js'
import { openRenewal } from '../../lib/http/renewal.js'
import { makeCertificate } from '../support/certificates.js'
import type { Identity } from '../support/certificates.js'

const first = makeCertificate({ names: ['first.test'] })
const second = makeCertificate({ names: ['second.test'] })

function write({ cert, key }: CertificateFiles, identity: Identity): void {
  writeFileSync(cert, identity.cert)
  writeFileSync(key, identity.key, { mode: 0o600 })
}

/** Connections keep coming until one finds what `isReached` waits for. */
async function open(files: CertificateFiles) {
  const told: { names: string[]; broken: string[] } = { names: [], broken: [] }
  const renewal = await openRenewal({
    files,
    clock: systemClock,
    onRenewed: ({ names }) => void told.names.push(...names),
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

t.test('files that are written anew', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  write(files, first)
  const stage = await open(files)
  t.equal(stage.shown(), 'first.test')
  write(files, second)
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told, { names: ['second.test'], broken: [] })
})

t.test('a renewal by certbot: links in live point to other files in archive', async t => {
  const directory = t.testdir({})
  const live = { cert: join(directory, 'live/fullchain.pem'), key: join(directory, 'live/privkey.pem') }
  const archive = (n: number) => ({ cert: join(directory, `archive/fullchain${n}.pem`), key: join(directory, `archive/privkey${n}.pem`) })
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

t.test('a renewal by Kubernetes: ..data points to another directory', async t => {
  const directory = t.testdir({})
  const at = (time: string) => ({ cert: join(directory, time, 'tls.crt'), key: join(directory, time, 'tls.key') })
  for (const [time, identity] of [['..2026_01', first], ['..2026_02', second]] as const) {
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

t.test('a new file that cannot be used leaves the old one in use, is complained about once, and is followed by one that can', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  write(files, first)
  const stage = await open(files)
  writeFileSync(files.cert, readFileSync(files.cert, 'utf8').slice(0, 100))
  await stage.until(() => stage.told.broken.length > 0)
  t.match(stage.told.broken[0], /cert\.pem" cannot be used: it holds no certificate in PEM/)
  t.equal(stage.shown(), 'first.test')
  rmSync(files.cert)
  await stage.until(() => stage.told.broken.length > 1)
  t.match(stage.told.broken[1], /there is no such file/)
  write(files, second)
  await stage.until(() => stage.shown() === 'second.test')
  t.equal(stage.told.broken.length, 2, 'each once')
})

t.test('a certificate that comes a moment before its key is no complaint', async t => {
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

t.test('what cannot be used at the start is refused', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  await t.rejects(open(files), { code: 'invalid_certificate' })
})
