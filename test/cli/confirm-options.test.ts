import t from 'tap'
import { readConfirmOptions, requireConfirmFeature } from '../../lib/cli/confirm-options.js'
import type { UploadPermit } from '../../lib/model/upload-permit.js'

t.test('reads times', async t => {
  t.strictSame(readConfirmOptions(undefined, undefined), { seconds: null, checkUrl: null })
  for (const [text, seconds] of Object.entries({ '90': 90, '90s': 90, '10m': 600, '24h': 86_400 })) {
    t.equal(readConfirmOptions(text, undefined).seconds, seconds, text)
  }
  for (const text of ['', '9s', '25h', '1.5m', '-90', '90 s', '1d']) {
    t.throws(() => readConfirmOptions(text, undefined), { message: /--confirm cannot be/ }, text)
  }
})

t.test('reads the URL to check', async t => {
  t.equal(readConfirmOptions('90s', 'https://shop.example.org/up').checkUrl?.href, 'https://shop.example.org/up')
  t.throws(() => readConfirmOptions(undefined, 'https://a'), { message: /needs --confirm/ })
  for (const url of ['shop', 'ftp://a', '']) {
    t.throws(() => readConfirmOptions('90s', url), { message: /--check-from-here cannot be/ }, url)
  }
})

t.test('refuses a server that would ignore the field', async t => {
  const permit = { features: ['confirm'] } as Partial<UploadPermit> as UploadPermit
  const asked = readConfirmOptions('90s', undefined)
  requireConfirmFeature(asked, permit)
  requireConfirmFeature(readConfirmOptions(undefined, undefined), null)
  t.throws(() => requireConfirmFeature(asked, null), { code: 'server_too_old' })
  t.throws(() => requireConfirmFeature(asked, {} as UploadPermit), { code: 'server_too_old' })
})
