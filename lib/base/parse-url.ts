/** Returns the URL, or null if the text is none. (`URL.canParse` does not exist before Node 18.17.) */
export function parseUrl(text: string): URL | null {
  try {
    return new URL(text)
  } catch {
    return null
  }
}
