import type { Host } from '../host.js'

/** Functions that colour text, or return it unchanged if colours are off. */
export interface Paint {
  bold(text: string): string
  dim(text: string): string
  red(text: string): string
  green(text: string): string
  yellow(text: string): string
  blue(text: string): string
}

/** SGR parameters (ECMA-48 §8.3.117) that turn a style on and off. */
const codes: Record<keyof Paint, [number, number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39]
}

/**
 * Returns the colours for a stream. If `FORCE_COLOR` is set, it decides (`0` and `false` turn colours off). Otherwise
 * any text in `NO_COLOR` turns them off. Otherwise they are on if the stream is a terminal that is not `dumb`.
 */
export function createPaint(stream: { isTTY?: boolean }, env: Host['env']): Paint {
  const isOn = wantsColor(stream, env)
  const paint = {} as Paint
  for (const [name, [on, off]] of Object.entries(codes) as [keyof Paint, [number, number]][]) {
    paint[name] = text => (isOn ? `\x1b[${on}m${text}\x1b[${off}m` : text)
  }
  return paint
}

function wantsColor(stream: { isTTY?: boolean }, env: Host['env']): boolean {
  if (env['FORCE_COLOR'] !== undefined) return env['FORCE_COLOR'] !== '0' && env['FORCE_COLOR'] !== 'false'
  if (env['NO_COLOR']) return false
  return stream.isTTY === true && env['TERM'] !== 'dumb'
}
