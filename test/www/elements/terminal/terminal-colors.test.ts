import '../../../support/without-dom.js'
import t from 'tap'
import { contrastOf, readable } from '../../../../www/elements/terminal/terminal-colors.js'
import type { Rgb } from '../../../../www/terminal/functions.js'

t.test('computes the contrast ratio of WCAG', async t => {
  t.equal(contrastOf([0, 0, 0], [255, 255, 255]), 21)
  t.equal(contrastOf([255, 255, 255], [255, 255, 255]), 1)
  t.equal(contrastOf([119, 119, 119], [255, 255, 255]).toFixed(2), '4.48')
})

t.test('keeps a legible colour and adjusts an illegible one', async t => {
  t.same(readable([0, 0, 0], [255, 255, 255], 4.5), [0, 0, 0])
  for (const ground of [
    [255, 255, 255],
    [0, 0, 0],
    [63, 111, 214],
    [119, 119, 119],
    [23, 117, 63]
  ] as Rgb[]) {
    for (const text of [[255, 255, 255], [0, 0, 0], [200, 30, 30], [30, 30, 200], ground] as Rgb[]) {
      const found = contrastOf(readable(text, ground, 4.5), ground)
      t.ok(found >= 4.5, `${text} on ${ground}: ${found.toFixed(2)}`)
    }
  }
})
