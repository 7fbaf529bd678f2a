import { readFileSync } from 'node:fs'
import t from 'tap'
import { labelColors } from '../../../lib/model/project.js'

const source = new URL('../../../../www/styles/panel.css', import.meta.url)
const tokens = new Map(
  [...readFileSync(source, 'utf8').matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(
    ([, name, light, dark]) => [name as string, { light: light as string, dark: dark as string }]
  )
)

/** Returns the relative luminance of WCAG 2.2 of `#rrggbb`. */
function luminance(hex: string): number {
  const [red, green, blue] = [1, 3, 5].map(at => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

function contrast(one: string, other: string): number {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a) as [number, number]
  return (high + 0.05) / (low + 0.05)
}

const grounds = ['ground', 'raised', 'sunken', 'hover']
const texts = ['text', 'muted', 'accent', 'success', 'failure', 'running', 'warning']
const pairs: Array<[front: string, back: string, least: number]> = [
  ...texts.flatMap(text => grounds.map(ground => [text, ground, 4.5] as [string, string, number])),
  ...grounds.map(ground => ['edge', ground, 3] as [string, string, number]),
  ['on-accent', 'accent', 4.5],
  ['on-failure', 'failure', 4.5],
  ['accent', 'accent-quiet', 4.5],
  ['success', 'success-quiet', 4.5],
  ['failure', 'failure-quiet', 4.5],
  ['running', 'running-quiet', 4.5],
  ['warning', 'warning-quiet', 4.5],
  ['text', 'failure-quiet', 4.5],
  ['log-text', 'log-ground', 4.5],
  ...labelColors.map(color => [`label-${color}`, `label-${color}-quiet`, 4.5] as [string, string, number]),
  ...Array.from({ length: 16 }, (_, index) => [`ansi-${index}`, 'log-ground', 4.5] as [string, string, number])
]

for (const theme of ['light', 'dark'] as const) {
  t.test(`text has a contrast of 4.5:1 and controls of 3:1 in the ${theme} theme`, async t => {
    for (const [front, back, least] of pairs) {
      const ratio = contrast(tokens.get(front)?.[theme] as string, tokens.get(back)?.[theme] as string)
      t.ok(ratio >= least, `${front} on ${back}: ${ratio.toFixed(2)}, at least ${least}`)
    }
  })
}
