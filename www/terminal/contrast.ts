import type { Rgb } from './reports.js'

/* Contrast ratios of WCAG 2.2, and the adjustment of text colours that have too little contrast. */

function luminance(color: Rgb): number {
  const [red, green, blue] = color.map(part => {
    const value = part / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/** Returns the contrast ratio of two colours: from 1 (equal) to 21 (black on white). */
export function contrastOf(one: Rgb, other: Rgb): number {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a) as [number, number]
  return (high + 0.05) / (low + 0.05)
}

const steps = 24

/**
 * Returns a text colour with at least the wanted contrast to its background. A colour with too little contrast is moved
 * towards black or white, whichever contrasts more with the background, by the smallest sufficient step.
 */
export function readable(text: Rgb, ground: Rgb, wanted: number): Rgb {
  if (contrastOf(text, ground) >= wanted) return text
  const end: Rgb = contrastOf([255, 255, 255], ground) >= contrastOf([0, 0, 0], ground) ? [255, 255, 255] : [0, 0, 0]
  for (let step = 1; step < steps; step++) {
    const moved = text.map((part, index) => Math.round(part + (((end[index] as number) - part) * step) / steps))
    if (contrastOf(moved as unknown as Rgb, ground) >= wanted) return moved as unknown as Rgb
  }
  return end
}
