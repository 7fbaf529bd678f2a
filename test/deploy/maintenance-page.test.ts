import t from 'tap'
import { maintenancePage } from '../../lib/deploy/maintenance-page.js'

t.test('the page is complete HTML, loads nothing, and escapes name and reason', async t => {
  const page = maintenancePage({ name: '<b>Shop</b>', reason: '"new" <script>alert(1)</script> & more' })
  t.match(page, /^<!doctype html>\n<html lang="en">[^]*<\/html>\n$/)
  t.match(page, '<h1>&lt;b&gt;Shop&lt;/b&gt; is in maintenance</h1>')
  t.match(page, '<p>&quot;new&quot; &lt;script&gt;alert(1)&lt;/script&gt; &amp; more</p>')
  t.notMatch(page, /<script|<b>|(src|href)=|url\(|@import/)
  const opened = [...page.matchAll(/<([a-z0-9]+)[ >]/g)].map(([, name]) => name as string)
  const closed = [...page.matchAll(/<\/([a-z0-9]+)>/g)].map(([, name]) => name as string)
  t.same(opened.filter(name => name !== 'meta').sort(), closed.sort(), 'every element that needs an end has one')
})

t.test('without a reason, the page has no paragraph for it', async t => {
  t.same(maintenancePage({ name: 'Shop', reason: null }).match(/<p>[^<]*<\/p>/g), ['<p>Please try again later.</p>'])
})
