import { describe, expect, it } from "vitest";
import { noteServerDate, serverNow } from "./clock";
import { exactMoney, plural, short } from "./numbers";
import { splitTimes } from "./sentence";
import { duration, exactTime, relativeTime, timeSpan } from "./time";
import { shortId } from "./words";

const NOW = Date.UTC(2026, 10, 15, 2, 14, 7, 123);

describe("times", () => {
  it.each([
    [NOW - 2_000, "just now"],
    [NOW + 2_000, "just now"],
    [NOW + 4_000, "in a few seconds"],
    [NOW - 42_000, "42 s ago"],
    [NOW - 200_000, "3 min ago"],
    [NOW - 7_300_000, "2 h ago"],
    [NOW - 30 * 3_600_000, "30 h ago"],
    [NOW - 72 * 3_600_000, "3 d ago"],
    [NOW + 90_000, "in 1 min"],
  ])("are relative", (at, words) => {
    expect(relativeTime(at, NOW)).toBe(words);
  });

  it.each([
    [0, "0 ms"],
    [80.4, "80 ms"],
    [1_249, "1.2 s"],
    [9_999, "9.9 s"],
    [59_999, "59 s"],
    [245_000, "4 m 05 s"],
    [12_000_000, "3 h 20 m"],
    [187_200_000, "2 d 4 h"],
    [-5, "0 s"],
  ])("last", (ms, words) => {
    expect(duration(ms)).toBe(words);
  });

  it("span minutes of a day, or days", () => {
    const at = (day: number, hour: number, minute: number): Date => new Date(2026, 10, day, hour, minute);
    expect(timeSpan(at(15, 2, 0), at(15, 2, 14), at(15, 9, 0))).toBe("02:00 – 02:14");
    expect(timeSpan(at(14, 2, 0), at(14, 2, 14), at(15, 9, 0))).toBe("14 Nov 02:00 – 02:14");
    expect(timeSpan(at(14, 23, 0), at(15, 1, 0), at(15, 9, 0))).toBe("2026-11-14 23:00 – 2026-11-15 01:00");
  });

  it("are exact in any zone", () => {
    expect(exactTime(new Date(NOW), "Europe/Berlin")).toBe("2026-11-15 03:14:07.123");
    expect(exactTime(new Date(NOW), "UTC")).toBe("2026-11-15 02:14:07.123");
  });
});

describe("names and numbers", () => {
  it("are short and still tell things apart", () => {
    expect(shortId("0192f0c1-2b3c-7d4e-8f90-123456789abc")).toBe("0192f0c1…9abc");
    expect(shortId("worker-1")).toBe("worker-1");
    expect(short(9_999)).toBe("9,999");
    expect(short(1_234_567)).toBe("1.2M");
    expect(exactMoney(123_456_789)).toBe("EUR\u00a01,234,567.89");
    expect(plural(1, "job")).toBe("1 job");
    expect(plural(1200, "job")).toBe("1,200 jobs");
  });
});

describe("the clock", () => {
  it("follows the server's where this browser's is wrong, and is left alone where it is right", () => {
    noteServerDate(new Date(Date.now() + 600_000).toUTCString());
    expect(Math.abs(serverNow() - Date.now() - 600_000)).toBeLessThan(1500);
    noteServerDate(new Date(Date.now()).toUTCString());
    expect(Math.abs(serverNow() - Date.now())).toBeLessThan(50);
  });
});

describe("a sentence of the server", () => {
  it("is split into text and times", () => {
    const parts = splitTimes("Paused since 2026-11-17 01:47:00 UTC by dana, until 2026-99-99 00:00 UTC.");
    expect(parts.map(({ text, at }) => at ?? text)).toEqual([
      "Paused since ",
      "2026-11-17T01:47:00Z",
      " by dana, until 2026-99-99 00:00 UTC.",
    ]);
  });
});
