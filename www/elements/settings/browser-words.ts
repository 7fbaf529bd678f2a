/* Describes a User-Agent in two words. Pure. */

const browsers: ReadonlyArray<[pattern: RegExp, name: string]> = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bFirefox\/|\bFxiOS\//, 'Firefox'],
  [/\bHeadlessChrome\/|\bChrome\/|\bCriOS\//, 'Chrome'],
  [/\bSafari\//, 'Safari']
]
const systems: ReadonlyArray<[pattern: RegExp, name: string]> = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux']
]
const maxLength = 60

/**
 * Returns for example "Firefox, Linux". For other programs, returns the beginning of the text; null if it is empty.
 */
export function browserWords(userAgent: string | null): string | null {
  if (userAgent === null) return null
  const find = (rows: typeof browsers): string | undefined => rows.find(([pattern]) => pattern.test(userAgent))?.[1]
  const found = [find(browsers), find(systems)].filter(name => name !== undefined)
  return found.length === 0 ? userAgent.slice(0, maxLength) : found.join(', ')
}
