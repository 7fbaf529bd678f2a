/** Returns a text as a stream may deliver it: whole, cut in two at every byte, and byte by byte. */
export function everyCut(text: string): Array<{ how: string; pieces: string[] }> {
  const bytes = new TextEncoder().encode(text)
  const cuts = [{ how: 'whole', chunks: [bytes] }]
  for (let at = 1; at < bytes.length; at++) {
    cuts.push({ how: `cut at byte ${at}`, chunks: [bytes.subarray(0, at), bytes.subarray(at)] })
  }
  cuts.push({ how: 'byte by byte', chunks: [...bytes].map(byte => Uint8Array.of(byte)) })
  return cuts.map(({ how, chunks }) => {
    const decoder = new TextDecoder()
    return { how, pieces: chunks.map(chunk => decoder.decode(chunk, { stream: true })) }
  })
}
